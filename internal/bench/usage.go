package main

import (
	"io"
	"sort"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// usagePeriod is the interval at which a server's CPU time is read while a client
// runs.
const usagePeriod = 5 * time.Millisecond

// A cpuUsage samples a server's CPU time while a client runs. Only the measured
// time counts: opening and closing 10,000 connections costs more than the calls in
// one second. A client reports how long it measured only when that time is over, so
// the CPU time is sampled from the start.
type cpuUsage struct {
	mu      sync.Mutex
	read    func() time.Duration
	samples []cpuSample
	ended   time.Time // the client's first byte of output, or zero
}

// A cpuSample is the CPU time that a server had used at a time.
type cpuSample struct {
	at  time.Time
	cpu time.Duration
}

// startSampling reads the CPU time until the returned function is called.
func (u *cpuUsage) startSampling(read func() time.Duration) (stop func()) {
	u.read = read
	u.sample()
	end := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		t := time.NewTicker(usagePeriod)
		defer t.Stop()
		for {
			select {
			case <-end:
				return
			case <-t.C:
				u.sample()
			}
		}
	})
	return func() {
		close(end)
		wg.Wait()
	}
}

// sample reads the CPU time once.
func (u *cpuUsage) sample() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	m := cpuSample{time.Now(), u.read()}
	u.samples = append(u.samples, m)
	return m.at
}

// endAtFirstByte returns a writer to w whose first byte ends the measured time.
func (u *cpuUsage) endAtFirstByte(w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if u.ended.IsZero() {
			u.ended = u.sample()
		}
		return w.Write(p)
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// measuredSeconds returns the CPU seconds used in the measured time, which is over.
func (u *cpuUsage) measuredSeconds(seconds float64) float64 {
	began := u.ended.Add(-time.Duration(seconds * float64(time.Second)))
	return (u.cpuAt(u.ended) - u.cpuAt(began)).Seconds()
}

// cpuAt returns the CPU time at a time, interpolated between the two nearest
// samples.
func (u *cpuUsage) cpuAt(t time.Time) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	i := sort.Search(len(u.samples), func(i int) bool { return !u.samples[i].at.Before(t) })
	switch {
	case len(u.samples) == 0:
		return 0
	case i == 0:
		return u.samples[0].cpu
	case i == len(u.samples):
		return u.samples[i-1].cpu
	}
	a, b := u.samples[i-1], u.samples[i]
	part := float64(t.Sub(a.at)) / float64(b.at.Sub(a.at))
	return a.cpu + time.Duration(part*float64(b.cpu-a.cpu))
}

// cpuOf returns the CPU time that all threads of a process have used, or 0 if the
// process does not exist. The clock ID is the one from clock_getcpuclockid(3).
func cpuOf(pid int) time.Duration {
	const sched = 2 // CPUCLOCK_SCHED of the whole process
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|sched), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
