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

// options are the values of the flags.
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
		if err := play(os.Args[2], os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.bin, "bin", "bin", "`DIR` of nfsrdmad and mountrdma")
	flag.StringVar(&o.data, "data", "/dev/shm", "`DIR` of a file system in memory with 2 GiB of room for test files")
	flag.IntVar(&o.rounds, "rounds", 5, "how often each row is measured")
	flag.DurationVar(&o.time, "time", time.Second, "how long each side of a row runs in a round")
	flag.StringVar(&o.rows, "rows", ".", "measure only rows whose name matches `REGEXP`")
	flag.StringVar(&o.doc, "doc", "", "`FILE` to put the table into, between its markers")
	flag.BoolVar(&o.gobench, "go", false, "print our figures in the format of Go benchmarks, for benchstat")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := run(ctx, &o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

// run measures the rows alternately and prints the results.
func run(ctx context.Context, o *options) error {
	match, err := regexp.Compile(o.rows)
	if err != nil {
		return err
	}
	w, err := newWorld(ctx, o)
	if err != nil {
		return err
	}
	defer w.close()
	var chosen []*row
	for _, r := range rows() {
		if r.possible() && match.MatchString(r.name) {
			chosen = append(chosen, r)
		}
	}
	for round := range o.rounds {
		for _, r := range chosen {
			fmt.Fprintf(os.Stderr, "round %d of %d: %s\n", round+1, o.rounds, r.name)
			switch err := r.measure(w); {
			case err == nil:
			case o.gobench && ctx.Err() == nil: // an earlier commit may not have what the row measures
				fmt.Fprintf(os.Stderr, "left out: %s: %v\n", r.name, err)
				r.forget()
			default:
				return fmt.Errorf("%s: %w", r.name, err)
			}
		}
	}
	if o.gobench {
		return printGo(os.Stdout, chosen)
	}
	t := table(chosen) + "\n" + setting(o)
	fmt.Print(t)
	if o.doc == "" {
		return nil
	}
	return replace(o.doc, t)
}
