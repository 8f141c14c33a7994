// Stores that are written in Go, each as a program: it makes the transactions of ../README.md and says
// which are committed, and checks what a crash left of them.
//
//	stores STORE run DIR
//	stores STORE check DIR ACKS
//
// Exit status: 0 all is well, 1 the check found something, 2 it could not run.
package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

const transactions = 8

// A change of one key.
type change struct {
	key, value string
	deletes    bool
}

// A store is opened, or made, in a directory.
type store interface {
	// commit makes the changes durable, all or none.
	commit(number int, changes []change) error
	// tidy does what the store does in the background at times, now.
	tidy() error
	// contents is all that the store holds, after it has looked whether it is sound.
	contents() (map[string]string, error)
	close() error
}

func value(key string, number, length int) string {
	var text strings.Builder
	for word := 0; text.Len() < length; word++ {
		fmt.Fprintf(&text, "%s/%d:%d ", key, number, word)
	}
	return text.String()[:length]
}

// transaction is what commit `number` does, from 1 on.
func transaction(number int) []change {
	set := func(key string, length int) change {
		return change{key: key, value: value(key, number, length)}
	}
	changes := []change{
		{key: "counter", value: strconv.Itoa(number)},
		set(fmt.Sprint("small", number%3), 400),
		set(fmt.Sprint("big", number%2), 8192),
		set(fmt.Sprint("new", number), 400),
	}
	if number > 3 {
		changes = append(changes, change{key: fmt.Sprint("new", number-3), deletes: true})
	}
	return changes
}

// after is the store after commit `number`; it is empty after 0.
func after(number int) map[string]string {
	state := map[string]string{}
	for n := 1; n <= number; n++ {
		for _, change := range transaction(n) {
			if change.deletes {
				delete(state, change.key)
			} else {
				state[change.key] = change.value
			}
		}
	}
	return state
}

func run(open func(string) (store, error), directory string) error {
	store, err := open(directory)
	if err != nil {
		return err
	}
	most := transactions
	if words := os.Getenv("CRASHPOINT_OPERATIONS"); words != "" {
		told, err := strconv.Atoi(words)
		if err != nil {
			return err
		}
		most = min(told, transactions)
	}
	for number := 1; number <= most; number++ {
		if err := store.commit(number, transaction(number)); err != nil {
			return err
		}
		// One call, so that the line is there or is not.
		if _, err := fmt.Fprintf(os.Stdout, "committed %d\n", number); err != nil {
			return err
		}
		if number == transactions/2 {
			if err := store.tidy(); err != nil {
				return err
			}
		}
	}
	return store.close()
}

// wrong is what is wrong with a state, or nothing.
func wrong(open func(string) (store, error), directory string, acknowledged int) (words string) {
	when := ""
	if acknowledged == 0 {
		when = "nothing was acknowledged, and "
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			words = fmt.Sprintf("%sthe store panics: %v", when, panicked)
		}
	}()
	contents, err := read(open, directory)
	if err != nil {
		return when + "the store cannot be read: " + strings.Join(strings.Fields(err.Error()), " ")
	}
	return differs(contents, acknowledged)
}

func read(open func(string) (store, error), directory string) (map[string]string, error) {
	store, err := open(directory)
	if err != nil {
		return nil, err
	}
	contents, err := store.contents()
	// What it says when it is closed is of what the check wrote.
	_ = store.close()
	return contents, err
}

// differs says how the contents differ from those after the last acknowledged commit, and after the
// next one, which was under way.
func differs(contents map[string]string, acknowledged int) string {
	if maps.Equal(contents, after(acknowledged)) || maps.Equal(contents, after(acknowledged+1)) {
		return ""
	}
	for number := range transactions + 1 {
		switch {
		case !maps.Equal(contents, after(number)):
		case number < acknowledged:
			return fmt.Sprintf("acknowledged commit %d is lost", number+1)
		default:
			return fmt.Sprintf("commit %d is there, and was never begun", number)
		}
	}
	return "the contents are those of no commit"
}

func look(open func(string) (store, error), directory, acks string) (bool, error) {
	lines, err := os.ReadFile(acks)
	if err != nil {
		return false, err
	}
	acknowledged := strings.Count(string(lines), "committed ")
	words := wrong(open, directory, acknowledged)
	if words == "" {
		fmt.Println("ok")
	} else {
		fmt.Println("broken " + words)
	}
	return words == "", nil
}

func main() {
	words := os.Args[1:]
	isWell := true
	var err error
	switch {
	case len(words) == 3 && words[1] == "run" && stores[words[0]] != nil:
		err = run(stores[words[0]], words[2])
	case len(words) == 4 && words[1] == "check" && stores[words[0]] != nil:
		isWell, err = look(stores[words[0]], words[2], words[3])
	default:
		names := strings.Join(slices.Sorted(maps.Keys(stores)), "|")
		err = fmt.Errorf("usage: stores %s run DIR, or check DIR ACKS", names)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(2)
	}
	if !isWell {
		os.Exit(1)
	}
}
