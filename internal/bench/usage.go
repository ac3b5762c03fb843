package main

import (
	"io"
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// usagePeriod is how often the CPU time of a server is read while a client runs.
const usagePeriod = 5 * time.Millisecond

// A usage is the CPU time of a server while a client runs. Only the measured time counts:
// to make and to end 10,000 connections takes more than the calls of a second. A client says how
// long it measured when that time is over, so the CPU time before is read all along.
type usage struct {
	mu    sync.Mutex
	read  func() time.Duration
	seen  []moment
	ended time.Time // the client's first byte of output, or zero
}

// A moment is the CPU time that a server had used at a time.
type moment struct {
	at  time.Time
	cpu time.Duration
}

// watch reads the CPU time until the returned function is called.
func (u *usage) watch(read func() time.Duration) (stop func()) {
	u.read = read
	u.look()
	end := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		t := time.NewTicker(usagePeriod)
		defer t.Stop()
		for {
			select {
			case <-end:
				return
			case <-t.C:
				u.look()
			}
		}
	})
	return func() {
		close(end)
		all.Wait()
	}
}

// look reads the CPU time once.
func (u *usage) look() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	m := moment{time.Now(), u.read()}
	u.seen = append(u.seen, m)
	return m.at
}

// until returns a writer to w whose first byte ends the measured time.
func (u *usage) until(w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if u.ended.IsZero() {
			u.ended = u.look()
		}
		return w.Write(p)
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// last returns the CPU seconds of the measured time, which has ended.
func (u *usage) last(seconds float64) float64 {
	began := u.ended.Add(-time.Duration(seconds * float64(time.Second)))
	return (u.at(u.ended) - u.at(began)).Seconds()
}

// at returns the CPU time at a time, between the two moments beside it in proportion.
func (u *usage) at(t time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := sort.Search(len(u.seen), func(i int) bool { return !u.seen[i].at.Before(t) })
	switch {
	case len(u.seen) == 0:
		return 0
	case i == 0:
		return u.seen[0].cpu
	case i == len(u.seen):
		return u.seen[i-1].cpu
	}
	a, b := u.seen[i-1], u.seen[i]
	part := float64(t.Sub(a.at)) / float64(b.at.Sub(a.at))
	return a.cpu + time.Duration(part*float64(b.cpu-a.cpu))
}

// cpuOf returns the CPU time that all threads of a process have used, in nanoseconds, or 0 if the
// process is not there. The clock's number is that of clock_getcpuclockid(3).
func cpuOf(pid int) time.Duration {
	const sched = 2 // CPUCLOCK_SCHED of the whole process
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|sched), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
