package workload

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// T collects the failures of a step. The assertions of testify accept it.
type T struct {
	failures []string
}

// Errorf records a failure.
func (t *T) Errorf(format string, args ...any) {
	t.failures = append(t.failures, fmt.Sprintf(format, args...))
}

// FailNow ends the step.
func (t *T) FailNow() { runtime.Goexit() }

// check runs f and returns its failures, or nil.
func check(f func(t *T)) error {
	t := new(T)
	done := make(chan struct{})
	go func() { // a separate goroutine, for FailNow to end
		defer close(done)
		f(t)
	}()
	<-done
	if len(t.failures) > 0 {
		return errors.New(strings.Join(t.failures, "\n"))
	}
	return nil
}

// A Step is one kind of work in a separate directory.
type Step struct {
	Name string
	run  func(t *T, dir string)
}

// Steps returns all steps, in the order of Run.
func Steps() []Step {
	return []Step{
		{"tree", tree},
		{"sizes", sizes},
		{"large", large},
		{"offsets", offsets},
		{"parallel", parallel},
		{"truncate", truncate},
		{"sparse", sparse},
		{"rename", rename},
		{"links", links},
		{"attributes", attributes},
		{"access", access},
		{"names", names},
		{"special", special},
		{"errors", wrong},
		{"listing", listing},
	}
}

// Run runs the named steps, or all, in directories that it makes in dir, and
// writes to log how long each took. It continues after a failed step; the error
// names each.
func Run(dir string, log io.Writer, names ...string) error {
	var failed []error
	for _, s := range Steps() {
		if len(names) > 0 && !slices.Contains(names, s.Name) {
			continue
		}
		own := filepath.Join(dir, s.Name)
		start := time.Now()
		err := os.Mkdir(own, 0o755)
		if err == nil {
			err = check(func(t *T) { s.run(t, own) })
		}
		fmt.Fprintf(log, "step %-10s %6.1f s\n", s.Name, time.Since(start).Seconds())
		if err != nil {
			failed = append(failed, fmt.Errorf("step %s: %w", s.Name, err))
		}
	}
	return errors.Join(failed...)
}
