package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Limits above which a round is disturbed, and the number of undisturbed rounds
// from which disturbed ones are left out.
const (
	disturbingShare  = 0.05 // share of all processors' time
	disturbingFaults = 100  // per second
	enoughRounds     = 3
)

// clockTick is /proc's unit of CPU time: USER_HZ, 100 everywhere.
const clockTick = 0.01

// A disturbance is the machine's other load during a measurement.
type disturbance struct {
	stolen float64 // share of the processors' time that the host gave to others (steal)
	others float64 // share used by processes outside the bench
	faults float64 // pages read from a disk per second
}

// isDisturbing reports whether the measurement is unreliable.
func (d disturbance) isDisturbing() bool {
	return d.stolen > disturbingShare || d.others > disturbingShare || d.faults > disturbingFaults
}

// worst returns the maximum for each field.
func (d disturbance) worst(e disturbance) disturbance {
	return disturbance{max(d.stolen, e.stolen), max(d.others, e.others), max(d.faults, e.faults)}
}

// String describes the values above their limits.
func (d disturbance) String() string {
	var s []string
	if d.stolen > disturbingShare {
		s = append(s, fmt.Sprintf("host %.0f %%", d.stolen*100))
	}
	if d.others > disturbingShare {
		s = append(s, fmt.Sprintf("others %.0f %%", d.others*100))
	}
	if d.faults > disturbingFaults {
		s = append(s, fmt.Sprintf("%.0f faults/s", d.faults))
	}
	return strings.Join(s, ", ")
}

// A machineCounters holds the machine's counters at a time.
type machineCounters struct {
	at     time.Time
	cpus   float64
	stolen float64 // seconds, over all processors
	others float64 // CPU seconds used by other processes
	faults float64
}

// readCounters reads the counters. A counter that the kernel lacks is 0, and never
// counts as a disturbance.
func (w *testbed) readCounters() machineCounters {
	s := machineCounters{at: time.Now(), others: othersTime(readProcesses(), os.Getpid(), w.isOwnProgram)}
	stat, _ := os.ReadFile("/proc/stat")
	s.cpus, s.stolen = parseCPUStat(string(stat))
	vmstat, _ := os.ReadFile("/proc/vmstat")
	s.faults = parseCounter(string(vmstat), "pgmajfault")
	return s
}

// disturbanceSince returns the disturbance between two readings. A process that
// exits while the processes are read may be missed, or counted twice.
func (s machineCounters) disturbanceSince(before machineCounters) disturbance {
	seconds := s.at.Sub(before.at).Seconds()
	if seconds <= 0 || s.cpus <= 0 {
		return disturbance{}
	}
	return disturbance{
		stolen: (s.stolen - before.stolen) / (seconds * s.cpus),
		others: min(max((s.others-before.others)/(seconds*s.cpus), 0), 1),
		faults: (s.faults - before.faults) / seconds,
	}
}

// parseCPUStat returns the number of processors and the seconds that the host stole
// from them, from /proc/stat.
func parseCPUStat(stat string) (cpus, stolen float64) {
	for line := range strings.Lines(stat) {
		f := strings.Fields(line)
		switch {
		case len(f) > 8 && f[0] == "cpu":
			stolen, _ = strconv.ParseFloat(f[8], 64)
		case len(f) > 0 && strings.HasPrefix(f[0], "cpu"):
			cpus++
		}
	}
	return cpus, stolen * clockTick
}

// parseCounter returns a value from /proc/vmstat.
func parseCounter(vmstat, name string) float64 {
	for line := range strings.Lines(vmstat) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return n
		}
	}
	return 0
}

// A process is one process's state in /proc.
type process struct {
	parent int
	kernel bool
	time   float64 // CPU seconds, including exited children
}

// parseProcess parses /proc/PID/stat.
func parseProcess(stat string) (process, bool) {
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // after the name, which may contain anything
	if len(f) < 15 {
		return process{}, false
	}
	parent, _ := strconv.Atoi(f[1])
	flags, _ := strconv.ParseUint(f[6], 10, 32)
	p := process{parent: parent, kernel: flags&0x200000 != 0} // PF_KTHREAD
	for _, ticks := range f[11:15] {
		n, _ := strconv.ParseFloat(ticks, 64)
		p.time += n * clockTick
	}
	return p, true
}

// readProcesses returns all processes.
func readProcesses() map[int]process {
	all := make(map[int]process)
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has exited
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if p, ok := parseProcess(string(stat)); ok {
			all[pid] = p
		}
	}
	return all
}

// othersTime returns the CPU time of processes that are neither kernel threads,
// which work for all, nor self's descendants, nor ours. The CPU time that exited
// processes used is credited to their parents, so differences are correct. self's
// ancestors are idle and need no exception.
func othersTime(all map[int]process, self int, ours func(pid int) bool) (sum float64) {
	for pid, p := range all {
		if !p.kernel && !isDescendant(all, pid, self) && !ours(pid) {
			sum += p.time
		}
	}
	return sum
}

// isDescendant reports whether pid is ancestor, or one of its descendants.
func isDescendant(all map[int]process, pid, ancestor int) bool {
	for range len(all) {
		if pid == ancestor {
			return true
		}
		p, ok := all[pid]
		if !ok {
			return false
		}
		pid = p.parent
	}
	return false
}

// isOwnProgram reports whether a process runs one of the measured programs: a mount
// detaches from its parent.
func (w *testbed) isOwnProgram(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false
	}
	bin, err := filepath.Abs(w.opts.bin)
	return err == nil && filepath.Dir(exe) == bin
}
