package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestDisturbance checks the shares between two readings, and their bounds.
func TestDisturbance(t *testing.T) {
	start := machineCounters{at: time.Unix(100, 0), cpus: 2, stolen: 5, others: 50, faults: 1000}
	for _, tt := range []struct {
		after machineCounters
		want  string
	}{
		{machineCounters{at: time.Unix(110, 0), cpus: 2, stolen: 6, others: 51, faults: 2000}, ""},
		{machineCounters{at: time.Unix(110, 0), cpus: 2, stolen: 8, others: 51, faults: 2000}, "host 15 %"},
		{machineCounters{at: time.Unix(110, 0), cpus: 2, stolen: 6, others: 60, faults: 2000}, "others 50 %"},
		{machineCounters{at: time.Unix(110, 0), cpus: 2, stolen: 8, others: 60, faults: 2010}, "host 15 %, others 50 %, 101 faults/s"},
		{machineCounters{at: time.Unix(110, 0), cpus: 2, stolen: 5, others: 500, faults: 1000}, "others 100 %"},
		{machineCounters{at: time.Unix(110, 0), cpus: 2, stolen: 5, faults: 1000}, ""},
		{machineCounters{at: time.Unix(100, 0), cpus: 2, stolen: 8}, ""},
		{machineCounters{at: time.Unix(110, 0), stolen: 8}, ""},
	} {
		d := tt.after.disturbanceSince(start)
		assert.Equal(t, tt.want, d.String())
		assert.Equal(t, tt.want != "", d.isDisturbing(), tt.want)
	}
	assert.Zero(t, machineCounters{at: time.Unix(110, 0), cpus: 2}.disturbanceSince(start).others, "a process was counted twice")
	assert.Equal(t, disturbance{3, 2, 4}, disturbance{1, 2, 3}.worst(disturbance{3, 1, 4}))
}

// TestCounters checks the values from /proc.
func TestCounters(t *testing.T) {
	cpus, stolen := parseCPUStat("cpu  1184264 696718 561069 413406 6056 1 29479 2802 0 0\ncpu0 592325 0 0 0 0 0 0 9 0 0\ncpu1 1 0 0 0 0 0 0 9 0 0\nintr 5\n")
	assert.Equal(t, []float64{2, 28.02}, []float64{cpus, stolen})
	assert.Equal(t, 17.0, parseCounter("pgfault 5\npgmajfault 17\npgmajfaulty 3\n", "pgmajfault"))
	assert.Zero(t, parseCounter("pgfault 5\n", "pgmajfault"))
	p, ok := parseProcess("77 (a) b (c)) S 12 77 77 0 -1 4194304 9 9 9 9 100 20 3000 400 20 0 1 0 5\n")
	assert.True(t, ok)
	assert.Equal(t, process{parent: 12, time: 35.2}, p)
	p, _ = parseProcess("9 (kworker/0:1) I 2 0 0 0 -1 69238880 0 0 0 0 5 5 0 0 20 0 1 0 5\n")
	assert.True(t, p.kernel)
	_, ok = parseProcess("77 (cut) S 12")
	assert.False(t, ok)
}

// TestOthersTime checks whose time counts, and that the exit of a process does not
// change the sum.
func TestOthersTime(t *testing.T) {
	const self, ours = 10, 40
	all := map[int]process{
		1: {time: 1}, 2: {kernel: true, time: 2}, 5: {parent: 1, time: 4}, self: {parent: 5, time: 8}, 11: {parent: self, time: 16},
		12: {parent: 11, time: 32}, 30: {parent: 1, time: 64}, 31: {parent: 30, time: 128}, ours: {parent: 1, time: 256},
	}
	isOurs := func(pid int) bool { return pid == ours }
	assert.Equal(t, 1.0+4+64+128, othersTime(all, self, isOurs))
	all[30] = process{parent: 1, time: 64 + 129}
	delete(all, 31)
	assert.Equal(t, 1.0+4+64+129, othersTime(all, self, isOurs), "of one more second")
	all[50], all[51] = process{parent: 51}, process{parent: 50}
	assert.False(t, isDescendant(all, 50, self), "an end, whatever changed while the processes were read")
}

// TestSnapshot checks that the counters of this machine are found, and that a child and a
// program of the bench are not others.
func TestSnapshot(t *testing.T) {
	w := &testbed{opts: &options{bin: "no such"}}
	s := w.readCounters()
	assert.Positive(t, s.cpus)
	cmd := exec.Command("sleep", "60")
	require.NoError(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	all := readProcesses()
	require.Contains(t, all, cmd.Process.Pid)
	assert.True(t, isDescendant(all, cmd.Process.Pid, os.Getpid()))
	assert.False(t, w.isOwnProgram(cmd.Process.Pid))
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid))
	require.NoError(t, err)
	w.opts.bin = filepath.Dir(exe)
	assert.True(t, w.isOwnProgram(cmd.Process.Pid))
}

// TestCounted checks which rounds count, and what the table says.
func TestCounted(t *testing.T) {
	calm, loud := disturbance{}, disturbance{others: 0.5}
	r := &row{name: "n", against: "l", limit: localRole("", ""), views: []comparedValue{{"", "B", func(r *result) float64 { return r.Bytes }, goal{}}}}
	for i := range 5 {
		r.results[0] = append(r.results[0], &result{Bytes: float64(i + 1)})
		r.results[1] = append(r.results[1], &result{Bytes: 1})
	}
	for _, tt := range []struct {
		beside []disturbance
		ours   series
		word   string
	}{
		{[]disturbance{calm, calm, calm, calm, calm}, series{1, 2, 3, 4, 5}, ""},
		{[]disturbance{calm, loud, calm, {stolen: 0.1, others: 0.01}, calm}, series{1, 3, 5}, "2 of 5, left out: host 10 %, others 50 %"},
		{[]disturbance{loud, loud, calm, loud, calm}, series{1, 2, 3, 4, 5}, "3 of 5, counted: others 50 %"},
	} {
		r.disturbances = tt.beside
		ours, limit := r.series(&r.views[0])
		assert.Equal(t, tt.ours, ours)
		assert.Len(t, limit, len(ours))
		assert.Equal(t, tt.word, r.disturbedText())
		assert.Contains(t, formatTable([]*row{r}), " | "+tt.word+" |\n")
	}
	r.dropResults()
	ours, _ := r.series(&r.views[0])
	assert.Empty(t, ours)
}
