// Put beside Porcupine's own tests, whose models and readers of logs it uses: prints for each log
// that is named in HISTORY_LOGS what Porcupine says of it, and how long that took.

package porcupine

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"
)

func TestTimesOfHistories(t *testing.T) {
	logs, _ := filepath.Glob(os.Getenv("HISTORY_LOGS"))
	sort.Strings(logs)
	limit, err := time.ParseDuration(os.Getenv("HISTORY_LIMIT"))
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range logs {
		model, events := etcdModel, parseJepsenLog
		if strings.HasSuffix(log, ".txt") {
			model, events = kvModel, parseKvLog
		}
		history := events(log)
		best := time.Hour
		var result CheckResult
		for repeat := 0; repeat < 5; repeat++ {
			start := time.Now()
			result = CheckEventsTimeout(model, history, limit)
			if took := time.Since(start); took < best {
				best = took
			}
			if best > time.Second {
				break
			}
		}
		fmt.Printf("TIME %s %s %d\n", filepath.Base(log), result, best.Microseconds())
	}
}
