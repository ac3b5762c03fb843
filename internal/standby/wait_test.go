package standby

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const testTenure = 10 * time.Second

func second(n float64) int64 { return int64(n * float64(time.Second)) }

// encodeBeat returns a beat's content.
func encodeBeat(t testing.TB, host, state string, count uint64) []byte {
	t.Helper()
	b := Beat{Version: beatVersion, State: state, Host: host, Process: host, Count: count, Tenure: testTenure.Seconds()}
	value, err := b.encode()
	require.NoError(t, err)
	return value
}

// TestWaitForSilence checks that silence lasts from the end of the first read of a beat to the start
// of the last one.
func TestWaitForSilence(t *testing.T) {
	w := Wait{Tenure: testTenure, Host: "b"}
	assert.Equal(t, StepRead, w.Next(), "nothing is known")
	one, two := encodeBeat(t, "a", Serving, 1), encodeBeat(t, "a", Serving, 2)
	w.Read(second(0), second(3), one) // it may have been written just before 3 s
	w.Read(second(12.9), second(20), one)
	assert.Equal(t, StepRead, w.Next(), "a later beat may have been written since 12.9 s")
	w.Read(second(21), second(21), two)
	w.Read(second(30.9), second(31), two)
	assert.Equal(t, StepRead, w.Next())
	w.Read(second(31), second(31), two)
	assert.Equal(t, StepLock, w.Next())
	w.Read(second(32), second(32), one)
	assert.Equal(t, StepRead, w.Next(), "any change is a sign of life")
}

// TestWaitLongerTenure checks that the host that has written the beat says how long its tenure is.
func TestWaitLongerTenure(t *testing.T) {
	w := Wait{Tenure: time.Second}
	w.Read(0, 0, encodeBeat(t, "a", Serving, 1))
	w.Read(second(9), second(9), encodeBeat(t, "a", Serving, 1))
	assert.Equal(t, StepRead, w.Next())
	w.Read(second(10), second(10), encodeBeat(t, "a", Serving, 1))
	assert.Equal(t, StepLock, w.Next())
}

// TestTakeOver checks the steps from the lock on: the beat is read again after the lock and after the
// own beat was written.
func TestTakeOver(t *testing.T) {
	a, b, c := encodeBeat(t, "a", Released, 1), encodeBeat(t, "b", Serving, 1), encodeBeat(t, "c", Serving, 1)
	start := func() *Wait {
		w := &Wait{Tenure: testTenure, Host: "b"}
		w.Read(1, 2, a)
		assert.Equal(t, StepLock, w.Next(), "a host that has released the directory is not waited for")
		w.Locked(3)
		assert.Equal(t, StepRead, w.Next())
		return w
	}
	w := start()
	w.Read(4, 5, c)
	assert.Equal(t, StepUnlock, w.Next(), "another host was faster")
	w.Unlocked()
	assert.Equal(t, StepRead, w.Next())

	w = start()
	w.Read(4, 5, a)
	assert.Equal(t, StepWrite, w.Next())
	w.Wrote(b, 7)
	assert.Equal(t, StepRead, w.Next())
	w.Read(8, 9, b)
	assert.Equal(t, StepServe, w.Next())

	w = start()
	w.Read(4, 5, a)
	w.Wrote(b, 7)
	w.Read(8, 9, c)
	assert.Equal(t, StepUnlock, w.Next(), "another host has written in the meantime")
}

// TestFenceFirst checks that a silent host is fenced before the lock is tried, again after it has shown
// life, and never this host itself or one that has released the directory.
func TestFenceFirst(t *testing.T) {
	w := Wait{Tenure: testTenure, Host: "b", Fence: true}
	silence := func(at float64, value []byte) Step {
		w.Read(second(at), second(at), value)
		w.Read(second(at+10), second(at+10), value)
		return w.Next()
	}
	assert.Equal(t, StepFence, silence(0, encodeBeat(t, "a", Serving, 1)))
	w.Fenced()
	assert.Equal(t, StepLock, w.Next())
	assert.Equal(t, StepFence, silence(20, encodeBeat(t, "a", Serving, 2)))
	assert.Equal(t, StepFence, silence(40, []byte("damaged")))
	assert.Equal(t, StepLock, silence(60, encodeBeat(t, "b", Serving, 2)))
	assert.Equal(t, StepLock, silence(80, encodeBeat(t, "a", Released, 2)))
	assert.Equal(t, StepLock, silence(100, nil), "nobody has served")
}

// TestNamesake checks that a host does not wait for another one with its own name that is alive. A
// silent one is this host itself, before its last boot.
func TestNamesake(t *testing.T) {
	for name, c := range map[string]struct {
		boot  string
		count uint64
		want  Step
	}{
		"another host":         {"boot 2", 2, StepRefuse},
		"another process":      {"boot 1", 2, StepRead},
		"before the last boot": {"boot 2", 1, StepRead},
	} {
		t.Run(name, func(t *testing.T) {
			w := Wait{Tenure: testTenure, Host: "a", Boot: "boot 1", Fence: true}
			beat := Beat{Version: beatVersion, State: Serving, Host: "a", Process: "p", Boot: c.boot, Count: 1}
			one, err := beat.encode()
			require.NoError(t, err)
			w.Read(second(0), second(0), one)
			assert.Equal(t, StepRead, w.Next())
			beat.Count = c.count
			two, err := beat.encode()
			require.NoError(t, err)
			w.Read(second(1), second(1), two)
			assert.Equal(t, c.want, w.Next())
		})
	}
}

// A modelHost is a host of TestModel. It runs the state machine, and beats while it serves.
type modelHost struct {
	name  string
	w     Wait
	until int64 // end of its tenure; 0: it waits

	wake     int64 // when it continues after a pause or a slow operation
	finish   func(now int64)
	nextBeat int64
	count    uint64
}

// A model is a shared directory with a register that some operations reach late, and a lock that the
// file system may give up early.
type model struct {
	t      *testing.T
	r      *rand.Rand
	now    int64
	beat   []byte
	holder *modelHost // of the lock
	hosts  []*modelHost
	calm   bool // no failures from now on

	served int // takeovers
}

const tick = int64(10 * time.Millisecond)

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, r: rand.New(rand.NewPCG(seed, 1)), now: second(1000)}
	for i := range 2 + m.r.IntN(2) {
		name := fmt.Sprint("host", i)
		m.hosts = append(m.hosts, &modelHost{name: name, w: Wait{Tenure: testTenure, Host: name}})
	}
	return m
}

// delay returns the duration of an operation: short, or in a storm sometimes longer than a tenure.
func (m *model) delay() int64 {
	if !m.calm && m.r.IntN(40) == 0 {
		return m.r.Int64N(int64(3 * testTenure))
	}
	return m.r.Int64N(3 * tick)
}

// begin starts an operation of h. Its effect comes at any time before its end.
func (m *model) begin(h *modelHost, effect func() func(now int64)) {
	d := m.delay()
	at := m.now + m.r.Int64N(d+1)
	end := m.now + d
	h.wake, h.finish = at, func(int64) {
		result := effect()
		h.wake, h.finish = end, result
	}
}

func (m *model) step() {
	m.now += tick
	if !m.calm && m.r.IntN(500) == 0 {
		m.holder = nil // the file system gives up the lock early
	}
	for _, h := range m.hosts {
		if !m.calm && m.r.IntN(3000) == 0 { // a pause
			h.wake = max(h.wake, m.now+m.r.Int64N(int64(3*testTenure)))
		}
		if m.now < h.wake {
			continue
		}
		if f := h.finish; f != nil {
			h.finish = nil
			f(m.now)
			continue
		}
		if h.until != 0 {
			m.serve(h)
		} else {
			m.wait(h)
		}
	}
	var serving []string
	for _, h := range m.hosts {
		if m.now < h.until {
			serving = append(serving, h.name)
		}
	}
	require.LessOrEqual(m.t, len(serving), 1, "at %v: %v", time.Duration(m.now), serving)
}

// serve beats, and starts anew as a waiting host when the tenure is over.
func (m *model) serve(h *modelHost) {
	switch {
	case m.now >= h.until:
		if m.holder == h {
			m.holder = nil
		}
		h.w, h.until = Wait{Tenure: testTenure, Host: h.name}, 0
	case m.now >= h.nextBeat:
		h.nextBeat = m.now + int64(testTenure/5)
		sent := m.now
		m.begin(h, func() func(int64) {
			h.count++
			if m.now < h.until { // the file system fences: no write of a late host arrives
				m.beat = encodeBeat(m.t, h.name, Serving, h.count)
			}
			return func(now int64) {
				if now < h.until {
					h.until = max(h.until, sent+int64(testTenure-testTenure/10))
				}
			}
		})
	}
}

func (m *model) wait(h *modelHost) {
	start := m.now
	switch h.w.Next() {
	case StepRead:
		m.begin(h, func() func(int64) {
			value := m.beat
			return func(now int64) {
				if m.calm || m.r.IntN(20) > 0 { // otherwise the read has failed
					h.w.Read(start, now, value)
				}
			}
		})
	case StepLock:
		if m.holder == nil {
			m.holder = h
			h.w.Locked(m.now)
			return
		}
		m.begin(h, func() func(int64) {
			value := m.beat
			return func(now int64) { h.w.Read(start, now, value) }
		})
	case StepUnlock:
		if m.holder == h {
			m.holder = nil
		}
		h.w.Unlocked()
	case StepWrite:
		m.begin(h, func() func(int64) {
			h.count++
			value := encodeBeat(m.t, h.name, Serving, h.count)
			if m.holder == h { // as above
				m.beat = value
			}
			return func(now int64) {
				h.w.Wrote(value, now)
				h.nextBeat = start
			}
		})
	case StepServe:
		h.until = h.nextBeat + int64(testTenure-testTenure/10)
		h.nextBeat = m.now
		m.served++
	default:
		m.t.Fatal("an unexpected step")
	}
}

// TestModel checks with random schedules of delays, pauses, failing reads and early losses of the lock
// that the tenures of two hosts never overlap, and that in calm one host serves within 3 T.
func TestModel(t *testing.T) {
	served := 0
	for seed := range uint64(25) {
		m := newModel(t, seed)
		for range 12000 {
			m.step()
		}
		m.calm = true
		for end := m.now + int64(3*testTenure); m.now < end; {
			for _, h := range m.hosts { // pauses end
				h.wake = min(h.wake, m.now+tick)
			}
			m.step()
		}
		alive := false
		for _, h := range m.hosts {
			alive = alive || m.now < h.until
		}
		assert.True(t, alive, "seed %d", seed)
		served += m.served
	}
	assert.Greater(t, served, 40, "hosts take over from one another")
}
