package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"time"

	"golang.org/x/sys/unix"
)

// options are the flags' values.
type options struct {
	bin     string
	data    string
	rounds  int
	time    time.Duration
	rows    string
	doc     string
	gobench bool
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == roleWord {
		if err := runRole(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "`DIR` with nfsrdmad and mountrdma")
	flag.StringVar(&o.data, "data", "/dev/shm", "`DIR` in a memory file system with 2 GiB of free space for test files")
	flag.IntVar(&o.rounds, "rounds", 5, "number of measurements of each row")
	flag.DurationVar(&o.time, "time", time.Second, "run time of each side of a row in a round")
	flag.StringVar(&o.rows, "rows", ".", "measure only rows whose name matches `REGEXP`")
	flag.StringVar(&o.doc, "doc", "", "`FILE` to put the table into, between its markers")
	flag.BoolVar(&o.gobench, "go", false, "print our figures in the format of Go benchmarks, for benchstat")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := measureRows(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// measureRows measures the rows alternately and prints the results.
func measureRows(ctx context.Context, o *options) error {
	match, err := regexp.Compile(o.rows)
	if err != nil {
		return err
	}
	w, err := newTestbed(ctx, o)
	if err != nil {
		return err
	}
	defer w.close()
	var chosen []*row
	for _, r := range allRows() {
		if r.isPossible() && match.MatchString(r.name) {
			chosen = append(chosen, r)
		}
	}
	for round := range o.rounds {
		for _, r := range chosen {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, o.rounds, r.name)
			switch err := r.measure(w); {
			case err == nil:
			case o.gobench && ctx.Err() == nil: // an earlier commit may lack what the row measures
				fmt.Fprintf(os.Stderr, "left out: %s: %v\n", r.name, err)
				r.dropResults()
			default:
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	if o.gobench {
		return printGo(os.Stdout, chosen)
	}
	t := formatTable(chosen) + "\n" + describeSetting(o)
	fmt.Print(t)
	if o.doc == "" {
		return nil
	}
	return replaceTable(o.doc, t)
}
