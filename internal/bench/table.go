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

// formatTable returns the rows in Markdown: minimum, median and maximum over the
// rounds.
func formatTable(rows []*row) string {
	var b strings.Builder
	b.WriteString("| what | against | unit | ours: min / median / max | limit: min / median / max | ratio: min / median / max | goal | disturbed rounds |\n")
	b.WriteString("| --- | --- | --- | ---: | ---: | ---: | --- | --- |\n")
	for _, r := range rows {
		for i := range r.views {
			b.WriteString(r.tableLine(&r.views[i]))
		}
	}
	return b.String()
}

// tableLine returns the table's line for a comparedValue.
func (r *row) tableLine(v *comparedValue) string {
	ours, limit := r.series(v)
	ratios := ours.ratios(limit)
	what := r.name
	if v.what != "" {
		what += ": " + v.what
	}
	if r.missing != "" {
		return fmt.Sprintf("| %s | %s | %s | %s |  |  |  |  |\n", what, r.against, v.unit, r.missing)
	}
	judged, shown := ratios, formatSpread(ratios)
	switch {
	case r.limit == nil:
		judged = ours
	case v.goal.isDifference:
		judged = ours.differences(limit)
		shown += "; more by " + formatSpread(judged)
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |\n", what, r.against, v.unit, formatSpread(ours), formatSpread(limit), shown, v.goal.describe(judged.median()), r.disturbedText())
}

// formatSpread returns a series' spread, with three significant digits.
func formatSpread(s series) string {
	if len(s) == 0 {
		return ""
	}
	low, median, high := s.minMedianMax()
	return formatDigits(low) + " / " + formatDigits(median) + " / " + formatDigits(high)
}

func formatDigits(x float64) string {
	if x == 0 {
		return "0"
	}
	places := min(max(2-int(math.Floor(math.Log10(math.Abs(x)))), 0), 3)
	return fmt.Sprintf("%.*f", places, x)
}

// describe returns the goal as text, and whether x misses it.
func (g goal) describe(x float64) string {
	if g.bound == 0 {
		return ""
	}
	word, end := "at least ", ""
	if g.isMaximum {
		word = "at most "
	}
	if g.isDifference {
		end = " more"
	}
	if !g.isMet(x) {
		end += ", **missed**"
	}
	return word + fmt.Sprint(g.bound) + end
}

// describeSetting defines a disturbed round, and names the machine, software and
// conditions used for the measurement.
func describeSetting(o *options) string {
	return fmt.Sprintf("A round is disturbed if, during one side, the host kept more than %[1]g %% of the processors' time (steal), processes that are not the bench's had\n"+
		"more than %[1]g %% of it, or more than %[2]d pages a second came from a disk (major faults). Least, median and greatest are of the\n"+
		"other rounds, if these are at least %[3]d, and of all rounds otherwise. The column has the worst round's values.\n\n", disturbingShare*100, disturbingFaults, enoughRounds) +
		fmt.Sprintf("%d rounds of %v; %d × %s; Linux %s; %s; %s; %s.\n", o.rounds, o.time, runtime.NumCPU(), processorName(),
			commandOutput("uname", "-r"), runtime.Version(), commandOutput("git", "describe", "--always", "--dirty"), time.Now().Format(time.DateOnly))
}

func processorName() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimLeft(strings.TrimSpace(name), ": \t")
		}
	}
	return runtime.GOARCH
}

func commandOutput(name string, args ...string) string {
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// The markers around the table in a document.
const (
	tableBegin = "<!-- make bench: begin -->\n"
	tableEnd   = "<!-- make bench: end -->\n"
)

// replaceTable puts text between a document's markers.
func replaceTable(name, text string) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(old), tableBegin)
	_, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s lacks the markers for the table: %q and %q", name, tableBegin, tableEnd)
	}
	return os.WriteFile(name, []byte(head+tableBegin+"\n"+text+"\n"+tableEnd+tail), 0o644)
}

// printGo prints our measurements in the format of Go benchmarks.
func printGo(to io.Writer, rows []*row) error {
	clean := strings.NewReplacer(" ", "_", ",", "")
	fmt.Fprintln(to, "pkg: github.com/nfsrdma/nfsrdma/internal/bench")
	for _, r := range rows {
		for _, res := range r.results[0] {
			if _, err := fmt.Fprintf(to, "Benchmark%s %.0f %.1f ns/op", clean.Replace(r.name), max(res.Ops, 1), res.Seconds/max(res.Ops, 1)*1e9); err != nil {
				return err
			}
			for _, v := range r.views {
				fmt.Fprintf(to, " %.4g %s", v.value(res), clean.Replace(v.unit))
			}
			fmt.Fprintln(to)
		}
	}
	return nil
}

// A series holds one measurement per round.
type series []float64

// minMedianMax returns the series' minimum, median and maximum.
func (s series) minMedianMax() (low, median, high float64) {
	if len(s) == 0 {
		return 0, 0, 0
	}
	v := slices.Sorted(slices.Values(s))
	n := len(v)
	return v[0], (v[(n-1)/2] + v[n/2]) / 2, v[n-1]
}

// median returns the series' median.
func (s series) median() float64 {
	_, m, _ := s.minMedianMax()
	return m
}

// differences subtracts another series, round by round.
func (s series) differences(by series) series {
	var d series
	for i := range min(len(s), len(by)) {
		d = append(d, s[i]-by[i])
	}
	return d
}

// ratios divides by another series, round by round.
func (s series) ratios(by series) series {
	var r series
	for i := range s {
		if i < len(by) && by[i] > 0 {
			r = append(r, s[i]/by[i])
		}
	}
	return r
}
