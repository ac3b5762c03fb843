package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What disturbs a round, and how many rounds must be left for those to be left out.
const (
	disturbingShare  = 0.05 // of the time of all processors
	disturbingFaults = 100  // a second
	enoughRounds     = 3
)

// clockTick is /proc's unit of CPU time: USER_HZ, 100 everywhere.
const clockTick = 0.01

// A disturbance is what the machine did beside a measurement.
type disturbance struct {
	stolen float64 // share of the processors' time that the host kept for others
	others float64 // share of it that processes had which are not the bench's
	faults float64 // pages read from a disk, a second
}

// disturbs reports whether the measurement is not to be trusted.
func (d disturbance) disturbs() bool {
	return d.stolen > disturbingShare || d.others > disturbingShare || d.faults > disturbingFaults
}

// worse returns the greater of each.
func (d disturbance) worse(e disturbance) disturbance {
	return disturbance{max(d.stolen, e.stolen), max(d.others, e.others), max(d.faults, e.faults)}
}

// String returns what disturbs.
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

// A snapshot is the state of the machine's counters.
type snapshot struct {
	at     time.Time
	cpus   float64
	stolen float64 // seconds, of all processors
	others float64 // seconds of CPU time of other processes
	faults float64
}

// snapshot reads the counters. What a kernel does not tell is 0, and does not disturb.
func (w *world) snapshot() snapshot {
	s := snapshot{at: time.Now(), others: othersTime(processes(), os.Getpid(), w.runs)}
	stat, _ := os.ReadFile("/proc/stat")
	s.cpus, s.stolen = processors(string(stat))
	vmstat, _ := os.ReadFile("/proc/vmstat")
	s.faults = counter(string(vmstat), "pgmajfault")
	return s
}

// since returns the disturbance between two snapshots. A process that ends while the
// processes are read may be missed, or counted twice.
func (s snapshot) since(before snapshot) disturbance {
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

// processors returns the number of processors and the seconds that the host stole from
// them, of /proc/stat.
func processors(stat string) (cpus, stolen float64) {
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

// counter returns a value of /proc/vmstat.
func counter(vmstat, name string) float64 {
	for line := range strings.Lines(vmstat) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return n
		}
	}
	return 0
}

// A process is one of /proc.
type process struct {
	parent int
	kernel bool
	time   float64 // seconds of CPU, with its children that have ended
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

// processes returns all processes.
func processes() map[int]process {
	all := make(map[int]process)
	names, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range names {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if p, ok := parseProcess(string(stat)); ok {
			all[pid] = p
		}
	}
	return all
}

// othersTime returns the CPU time of processes that are neither the kernel's, which works for
// all, nor self's descendants, nor ours. The time of a process that ends goes to its
// parent, so that differences of this sum are right. self's ancestors count: they wait.
func othersTime(all map[int]process, self int, ours func(pid int) bool) (sum float64) {
	for pid, p := range all {
		if !p.kernel && !descends(all, pid, self) && !ours(pid) {
			sum += p.time
		}
	}
	return sum
}

// descends reports whether pid is ancestor, or one of its descendants.
func descends(all map[int]process, pid, ancestor int) bool {
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

// runs reports whether a process runs a program of the bench: a mount has left its parent.
func (w *world) runs(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false
	}
	bin, err := filepath.Abs(w.o.bin)
	return err == nil && filepath.Dir(exe) == bin
}
