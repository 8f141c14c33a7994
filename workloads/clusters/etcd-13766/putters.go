// Clients and the check of three etcd members, over the JSON gateway of their v3 API.
//
//	putters prepare             waits until all members take a put
//	putters write COUNT MS      so many putters for so many milliseconds; prints `set KEY VALUE` for
//	                            each put that was acknowledged
//	putters back-up COUNT MS MEMBER  so many back-ups of a member at a time, one after the other: it
//	                            commits what it has before each
//	putters check ACKS          prints `ok`, or `broken …`: an acknowledged put that is gone, or
//	                            members that hold different things at the same place of their log
//
// A put that fails is unknown: it may still be applied, and later than others. So nothing more is put to
// the keys that the putter used until then.
package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	putWithin    = 500 * time.Millisecond
	answerWithin = 5 * time.Second
	// How long members may take to answer, and to come to the same place of their log.
	settleWithin = 20 * time.Second
	tryEvery     = 50 * time.Millisecond
	// Members that differ are asked again, after so long, so many times.
	confirmAfter = 500 * time.Millisecond
	confirmTimes = 3
	// Each putter writes to keys of its own, so that the order of its puts is known.
	keysOfEach = 50
)

var members = []string{"etcd1", "etcd2", "etcd3"}

// ask does one call and decodes its answer into `answer`, if that is not nil.
func ask(client *http.Client, member, call string, arguments, answer any) error {
	body, err := json.Marshal(arguments)
	if err != nil {
		return err
	}
	response, err := client.Post("http://"+member+":2379/v3/"+call, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, text)
	}
	if answer == nil {
		return nil
	}
	return json.Unmarshal(text, answer)
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func put(client *http.Client, member, key, value string) error {
	return ask(client, member, "kv/put", map[string]string{"key": encoded(key), "value": encoded(value)}, nil)
}

func prepare() error {
	client := &http.Client{Timeout: answerWithin}
	for _, member := range members {
		until := time.Now().Add(settleWithin)
		for {
			err := put(client, member, "prepared", "yes")
			if err == nil {
				break
			}
			if time.Now().After(until) {
				return err
			}
			time.Sleep(tryEvery)
		}
	}
	return nil
}

func write(count int, during time.Duration) {
	until := time.Now().Add(during)
	transport := &http.Transport{MaxIdleConnsPerHost: count}
	client := &http.Client{Timeout: putWithin, Transport: transport}
	var printing sync.Mutex
	var putters sync.WaitGroup
	for putter := range count {
		putters.Add(1)
		go func() {
			defer putters.Done()
			failed := 0
			for number := 0; time.Now().Before(until); number++ {
				key := fmt.Sprintf("k%d-%d-%d", putter, failed, number%keysOfEach)
				value := fmt.Sprintf("v%d", number)
				if put(client, members[putter%len(members)], key, value) != nil {
					failed++
					time.Sleep(tryEvery)
					continue
				}
				printing.Lock()
				fmt.Println("set", key, value)
				printing.Unlock()
			}
		}()
	}
	putters.Wait()
}

// state is what a member says of itself.
type state struct {
	Applied string `json:"raftAppliedIndex"`
	Header  struct {
		Revision string `json:"revision"`
	} `json:"header"`
}

// backUp has a member commit again and again, whatever its timer says.
func backUp(count int, during time.Duration, member string) {
	until := time.Now().Add(during)
	client := &http.Client{Timeout: answerWithin, Transport: &http.Transport{MaxIdleConnsPerHost: count}}
	var askers sync.WaitGroup
	for range count {
		askers.Add(1)
		go func() {
			defer askers.Done()
			for time.Now().Before(until) {
				if ask(client, member, "maintenance/snapshot", map[string]string{}, nil) != nil {
					time.Sleep(tryEvery)
				}
			}
		}()
	}
	askers.Wait()
}

func number(text string) int64 {
	found, _ := strconv.ParseInt(text, 10, 64)
	return found
}

// settled waits until all members have applied the same part of the log, and returns their revisions.
func settled(client *http.Client) ([]int64, error) {
	until := time.Now().Add(settleWithin)
	for {
		revisions, problem := sameIndex(client)
		if problem == nil || time.Now().After(until) {
			return revisions, problem
		}
		time.Sleep(tryEvery)
	}
}

func sameIndex(client *http.Client) ([]int64, error) {
	var revisions []int64
	var applied []string
	for _, member := range members {
		var is state
		if err := ask(client, member, "maintenance/status", struct{}{}, &is); err != nil {
			return nil, err
		}
		applied = append(applied, is.Applied)
		revisions = append(revisions, number(is.Header.Revision))
	}
	if applied[0] != applied[1] || applied[1] != applied[2] {
		return nil, fmt.Errorf("members have applied %s", strings.Join(applied, ", "))
	}
	return revisions, nil
}

// difference says how members differ that have applied the same part of the log, if they do.
func difference(client *http.Client) (string, error) {
	revisions, err := settled(client)
	if err != nil {
		return "", err
	}
	lowest := min(revisions[0], revisions[1], revisions[2])
	var hashes []uint32
	for _, member := range members {
		var is struct {
			Hash uint32 `json:"hash"`
		}
		at := map[string]string{"revision": strconv.FormatInt(lowest, 10)}
		if err := ask(client, member, "maintenance/hash", at, &is); err != nil {
			return "", err
		}
		hashes = append(hashes, is.Hash)
	}
	if revisions[0] == revisions[1] && revisions[1] == revisions[2] && hashes[0] == hashes[1] && hashes[1] == hashes[2] {
		return "", nil
	}
	return fmt.Sprintf("members differ: revisions %v, hashes %v at %d", revisions, hashes, lowest), nil
}

func lasting(client *http.Client) (string, error) {
	for try := 0; ; try++ {
		found, err := difference(client)
		if err != nil || found == "" || try == confirmTimes {
			return found, err
		}
		time.Sleep(confirmAfter)
	}
}

// gone says which acknowledged put is not there. A later one of its putter may be in its place.
func gone(client *http.Client, acks string) (string, error) {
	file, err := os.Open(acks)
	if err != nil {
		return "", err
	}
	defer file.Close()
	last := map[string]int64{}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var key, value string
		if _, err := fmt.Sscanf(lines.Text(), "set %s %s", &key, &value); err == nil {
			last[key] = number(value[1:])
		}
	}
	var all struct {
		Kvs []struct {
			Key, Value []byte
		} `json:"kvs"`
	}
	// From the lowest key on, without an end.
	everything := map[string]string{"key": encoded("\x00"), "range_end": encoded("\x00")}
	if err := ask(client, members[0], "kv/range", everything, &all); err != nil {
		return "", err
	}
	held := map[string]int64{}
	for _, pair := range all.Kvs {
		held[string(pair.Key)] = number(string(pair.Value[1:]))
	}
	for key, value := range last {
		if found, is := held[key]; !is || found < value {
			return fmt.Sprintf("an acknowledged put is gone, of %d", len(last)), nil
		}
	}
	return "", nil
}

func check(acks string) error {
	client := &http.Client{Timeout: answerWithin}
	broken := false
	for _, look := range []func() (string, error){
		func() (string, error) { return lasting(client) },
		func() (string, error) { return gone(client, acks) },
	} {
		found, err := look()
		if err != nil {
			return err
		}
		if found != "" {
			fmt.Println("broken", found)
			broken = true
		}
	}
	if !broken {
		fmt.Println("ok")
	}
	return nil
}

func run(words []string) error {
	switch {
	case len(words) == 1 && words[0] == "prepare":
		return prepare()
	case len(words) == 3 && words[0] == "write":
		write(int(number(words[1])), time.Duration(number(words[2]))*time.Millisecond)
		return nil
	case len(words) == 4 && words[0] == "back-up":
		backUp(int(number(words[1])), time.Duration(number(words[2]))*time.Millisecond, words[3])
		return nil
	case len(words) == 2 && words[0] == "check":
		return check(words[1])
	}
	return fmt.Errorf("usage: putters prepare | write COUNT MS | back-up COUNT MS MEMBER | check ACKS")
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
