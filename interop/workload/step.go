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

// T collects a step's failures. Testify's assertions accept it.
type T struct {
	failures []string
}

// Errorf records a failure.
func (t *T) Errorf(format string, args ...any) {
	t.failures = append(t.failures, fmt.Sprintf(format, args...))
}

// FailNow ends the step.
func (t *T) FailNow() { runtime.Goexit() }

// runChecks runs f and returns its failures, or nil.
func runChecks(f func(t *T)) error {
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

// A step is one kind of work in a separate directory.
type step struct {
	Name string
	run  func(t *T, dir string)
}

// listSteps returns all steps, in the order in which Run runs them.
func listSteps() []step {
	return []step{
		{"tree", makeTree},
		{"sizes", testSizes},
		{"large", testLarge},
		{"offsets", testOffsets},
		{"parallel", testParallel},
		{"truncate", testTruncate},
		{"sparse", testSparse},
		{"rename", testRename},
		{"links", testLinks},
		{"attributes", testAttributes},
		{"access", testAccess},
		{"names", testNames},
		{"special", testSpecial},
		{"errors", testErrors},
		{"listing", testListing},
	}
}

// Run runs the named steps, or all, in directories that it creates in dir, and writes
// each step's duration to log. It continues after a failed step; the error names each.
func Run(dir string, log io.Writer, names ...string) error {
	var failed []error
	for _, s := range listSteps() {
		if len(names) > 0 && !slices.Contains(names, s.Name) {
			continue
		}
		own := filepath.Join(dir, s.Name)
		start := time.Now()
		err := os.Mkdir(own, 0o755)
		if err == nil {
			err = runChecks(func(t *T) { s.run(t, own) })
		}
		fmt.Fprintf(log, "step %-10s %6.1f s\n", s.Name, time.Since(start).Seconds())
		if err != nil {
			failed = append(failed, fmt.Errorf("step %s: %w", s.Name, err))
		}
	}
	return errors.Join(failed...)
}
