package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// table returns the rows in Markdown: least, median and greatest of the rounds.
func table(rows []*row) string {
	var b strings.Builder
	b.WriteString("| what | against | unit | ours: min / median / max | limit: min / median / max | ratio: min / median / max | goal | disturbed rounds |\n")
	b.WriteString("| --- | --- | --- | ---: | ---: | ---: | --- | --- |\n")
	for _, r := range rows {
		for i := range r.views {
			b.WriteString(r.line(&r.views[i]))
		}
	}
	return b.String()
}

// line returns the table's line of a view.
func (r *row) line(v *view) string {
	ours, limit := r.series(v)
	ratios := ours.ratios(limit)
	what := r.name
	if v.what != "" {
		what += ": " + v.what
	}
	if r.lacks != "" {
		return fmt.Sprintf("| %s | %s | %s | %s |  |  |  |  |\n", what, r.against, v.unit, r.lacks)
	}
	judged, shown := ratios, show(ratios)
	switch {
	case r.limit == nil:
		judged = ours
	case v.goal.more:
		judged = ours.minus(limit)
		shown += "; more by " + show(judged)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", what, r.against, v.unit, show(ours), show(limit), shown, v.goal.verdict(judged.median()), r.disturbed())
}

// show returns the spread of a series, with three digits.
func show(s series) string {
	if len(s) == 0 {
		return ""
	}
	low, median, high := s.spread()
	return digits(low) + " / " + digits(median) + " / " + digits(high)
}

func digits(x float64) string {
	if x == 0 {
		return "0"
	}
	places := min(max(2-int(math.Floor(math.Log10(math.Abs(x)))), 0), 3)
	return fmt.Sprintf("%.*f", places, x)
}

// verdict returns the goal, and whether x reaches it.
func (g goal) verdict(x float64) string {
	if g.bound == 0 {
		return ""
	}
	word, end := "at least ", ""
	if g.most {
		word = "at most "
	}
	if g.more {
		end = " more"
	}
	if !g.met(x) {
		end += ", **missed**"
	}
	return word + fmt.Sprint(g.bound) + end
}

// setting returns what a disturbed round is, and the machine, the software and the conditions
// of the measurement.
func setting(o *options) string {
	return fmt.Sprintf("A round is disturbed if, during one side, the host kept more than %[1]g %% of the processors' time (steal), processes that are not the bench's had\n"+
		"more than %[1]g %% of it, or more than %[2]d pages a second came from a disk (major faults). Least, median and greatest are of the\n"+
		"other rounds, if these are at least %[3]d, and of all rounds otherwise. The column has the worst round's values.\n\n", disturbingShare*100, disturbingFaults, enoughRounds) +
		fmt.Sprintf("%d rounds of %v; %d × %s; Linux %s; %s; %s; %s.\n", o.rounds, o.time, runtime.NumCPU(), processor(),
			output("uname", "-r"), runtime.Version(), output("git", "describe", "--always", "--dirty"), time.Now().Format(time.DateOnly))
}

func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimLeft(strings.TrimSpace(name), ": \t")
		}
	}
	return runtime.GOARCH
}

func output(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// The markers around the table in a document.
const (
	begin = "<!-- make bench: begin -->\n"
	end   = "<!-- make bench: end -->\n"
)

// replace puts text between the markers of a document.
func replace(name, text string) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(old), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for the table: %q and %q", name, begin, end)
	}
	return os.WriteFile(name, []byte(head+begin+"\n"+text+"\n"+end+tail), 0o644)
}

// printGo prints the measurements of ours in the format of Go's benchmarks.
func printGo(to io.Writer, rows []*row) error {
	clean := strings.NewReplacer(" ", "_", ",", "")
	fmt.Fprintln(to, "pkg: github.com/nfsrdma/nfsrdma/internal/bench")
	for _, r := range rows {
		for _, res := range r.results[0] {
			if _, err := fmt.Fprintf(to, "Benchmark%s %.0f %.1f ns/op", clean.Replace(r.name), max(res.Ops, 1), res.Seconds/max(res.Ops, 1)*1e9); err != nil {
				return err
			}
			for _, v := range r.views {
				fmt.Fprintf(to, " %.4g %s", v.of(res), clean.Replace(v.unit))
			}
			fmt.Fprintln(to)
		}
	}
	return nil
}

// A series is the measurements of the rounds.
type series []float64

// spread returns the least, the middle and the greatest of a series.
func (s series) spread() (low, median, high float64) {
	if len(s) == 0 {
		return 0, 0, 0
	}
	v := slices.Sorted(slices.Values(s))
	n := len(v)
	return v[0], (v[(n-1)/2] + v[n/2]) / 2, v[n-1]
}

// median returns the middle of a series.
func (s series) median() float64 {
	_, m, _ := s.spread()
	return m
}

// minus returns a series less another one, round by round.
func (s series) minus(by series) series {
	var d series
	for i := range min(len(s), len(by)) {
		d = append(d, s[i]-by[i])
	}
	return d
}

// ratios returns a series divided by another one, round by round.
func (s series) ratios(by series) series {
	var r series
	for i := range s {
		if i < len(by) && by[i] > 0 {
			r = append(r, s[i]/by[i])
		}
	}
	return r
}
