package standby

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/nfsrdma/nfsrdma/internal/tenure"
)

// A fakeStore is a Store in memory whose operations fail or hang as the test wants.
type fakeStore struct {
	mu     sync.Mutex
	beat   []byte
	locked bool
	writes int
	onRead func() error                      // called before each read, unlocked
	write  func(n int, content []byte) error // called before each write, unlocked
}

func (f *fakeStore) ReadBeat() ([]byte, error) {
	if f.onRead != nil {
		if err := f.onRead(); err != nil {
			return nil, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.beat, nil
}

func (f *fakeStore) WriteBeat(content []byte) error {
	f.mu.Lock()
	f.writes++
	n := f.writes
	f.mu.Unlock()
	if f.write != nil {
		if err := f.write(n, content); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.beat = content
	return nil
}

func (f *fakeStore) TryLock() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	free := !f.locked
	f.locked = true
	return free, nil
}

func (f *fakeStore) Unlock() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locked = false
}

func (f *fakeStore) lastBeat() Beat {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, _ := parseBeat(f.beat)
	return b
}

// testConfig is a host with the shortest tenure.
func testConfig(f *fakeStore) Config {
	return Config{Store: f, Tenure: MinTenure, Beat: Beat{Host: "b", Process: "b1"}}
}

// startHost returns a host that has taken over from a host that had released the directory.
func startHost(t *testing.T, f *fakeStore) *Host {
	t.Helper()
	f.beat = encodeBeat(t, "a", Released, 1)
	h, err := NewWaiter(testConfig(f)).Wait(t.Context())
	require.NoError(t, err)
	t.Cleanup(h.Stop)
	return h
}

// awaitCount waits until the beat's count is n or more.
func awaitCount(t *testing.T, f *fakeStore, n uint64) {
	t.Helper()
	require.Eventually(t, func() bool { return f.lastBeat().Count >= n }, time.Minute, time.Millisecond)
}

// TestHost checks that a host's beats extend its tenure, until it releases the directory.
func TestHost(t *testing.T) {
	f := new(fakeStore)
	h := startHost(t, f)
	awaitCount(t, f, 8) // more than one tenure
	assert.False(t, h.Tenure.Over())
	require.NoError(t, h.Release())
	assert.Equal(t, Released, f.lastBeat().State)
	assert.True(t, h.Tenure.Over())
	select {
	case <-h.Over():
		t.Error("a host that has released the directory is not late")
	default:
	}
}

// TestBeatsFail checks that a host's tenure ends when its beats fail, and says why.
func TestBeatsFail(t *testing.T) {
	broken := errors.New("broken")
	f := &fakeStore{write: func(n int, _ []byte) error {
		if n > 1 {
			return broken
		}
		return nil
	}}
	h := startHost(t, f)
	<-h.Over()
	assert.True(t, h.Tenure.Over())
	assert.ErrorIs(t, h.Err(), broken)
	assert.Error(t, h.Release())
	assert.Equal(t, Serving, f.lastBeat().State)
}

// TestBeatHangs checks that a beat that hangs does not keep later ones from extending the tenure, but
// keeps the host from releasing the directory: it might come later.
func TestBeatHangs(t *testing.T) {
	hang := make(chan struct{})
	f := &fakeStore{write: func(n int, _ []byte) error {
		if n == 2 {
			<-hang
		}
		return nil
	}}
	h := startHost(t, f)
	awaitCount(t, f, 8)
	assert.False(t, h.Tenure.Over())
	assert.ErrorIs(t, h.Release(), tenure.ErrOver)
	assert.Equal(t, Serving, f.lastBeat().State)
	close(hang)
	<-h.idle
}

// TestAllBeatsHang checks that the number of beats in flight is bounded.
func TestAllBeatsHang(t *testing.T) {
	hang := make(chan struct{})
	f := &fakeStore{write: func(n int, _ []byte) error {
		if n > 1 {
			<-hang
		}
		return nil
	}}
	h := startHost(t, f)
	<-h.Over()
	h.mu.Lock()
	h.inFlight = maxInFlight
	h.mu.Unlock()
	_, ok := h.startBeat()
	assert.False(t, ok)
	h.Stop()
	close(hang)
}

// TestForeignBeat checks that a host stops at once when another one has written the beat, over which it
// writes nothing.
func TestForeignBeat(t *testing.T) {
	f := new(fakeStore)
	h := startHost(t, f)
	foreign := encodeBeat(t, "c", Serving, 5)
	f.mu.Lock()
	f.beat = foreign
	f.mu.Unlock()
	<-h.Over()
	assert.ErrorIs(t, h.Err(), ErrForeign)
	assert.ErrorContains(t, h.Err(), "c")
	assert.Error(t, h.Release())
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.Equal(t, foreign, f.beat)
}

// TestWaiterHangs checks that a waiting host can be stopped while the file system hangs, and says that
// it does.
func TestWaiterHangs(t *testing.T) {
	hang, inside := make(chan struct{}), make(chan struct{}, 1)
	f := &fakeStore{onRead: func() error {
		inside <- struct{}{}
		<-hang
		return nil
	}}
	ctx, cancel := context.WithCancelCause(t.Context())
	w := NewWaiter(testConfig(f))
	stopped := errors.New("stopped")
	go func() {
		<-inside
		w.mu.Lock()
		w.since -= int64(time.Minute)
		w.mu.Unlock()
		assert.Contains(t, w.Status().String(), "; the file system of the state directory has not responded for 60.")
		cancel(stopped)
	}()
	_, err := w.Wait(ctx)
	assert.ErrorIs(t, err, stopped)
	close(hang)
}

// TestReadsFail checks that a failing read is reported, and that a host does not take over meanwhile.
func TestReadsFail(t *testing.T) {
	broken := errors.New("broken")
	fails := make(chan error)
	f := &fakeStore{beat: encodeBeat(t, "a", Released, 1), onRead: func() error { return <-fails }}
	w := NewWaiter(testConfig(f))
	served := make(chan *Host)
	go func() {
		h, err := w.Wait(t.Context())
		assert.NoError(t, err)
		served <- h
	}()
	for range 3 {
		fails <- broken
	}
	require.Eventually(t, func() bool { return errors.Is(w.Status().Err, broken) }, time.Minute, time.Millisecond)
	assert.Contains(t, w.Status().String(), "standby: this host finds out whether another one serves; the beat cannot be read: broken")
	close(fails) // reads succeed
	h := <-served
	h.Stop()
}

// TestFenceRetries checks that a host serves only when the silent one is fenced.
func TestFenceRetries(t *testing.T) {
	f := &fakeStore{beat: encodeBeat(t, "a", Serving, 1)}
	one, _ := parseBeat(f.beat)
	one.Tenure = MinTenure.Seconds()
	f.beat, _ = one.encode()
	cfg := testConfig(f)
	tries, verdict := make(chan Beat), make(chan error)
	cfg.Fence = func(_ context.Context, silent Beat) error {
		tries <- silent
		return <-verdict
	}
	w := NewWaiter(cfg)
	served := make(chan *Host, 1)
	go func() {
		h, err := w.Wait(t.Context())
		assert.NoError(t, err)
		served <- h
	}()
	assert.Equal(t, one, <-tries)
	assert.Contains(t, w.Status().String(), "standby: host a is silent for ")
	assert.Contains(t, w.Status().String(), ", and is being fenced")
	verdict <- errors.New("no power switch")
	require.Eventually(t, func() bool { return w.Status().Retry > 0 }, time.Minute, time.Millisecond)
	assert.Contains(t, w.Status().String(), "and cannot be fenced; the next attempt is in ")
	assert.Contains(t, w.Status().String(), "no power switch")
	assert.Empty(t, served)
	assert.False(t, f.locked, "the lock is tried after the fence")
	<-tries
	verdict <- nil
	h := <-served
	assert.Equal(t, "b", f.lastBeat().Host)
	h.Stop()
}

// TestStopWithLastBeat checks that the last beat may return while its host stops.
func TestStopWithLastBeat(t *testing.T) {
	f := new(fakeStore)
	for range 1000 {
		h := newHost(testConfig(f), 1, tenure.Now())
		n, ok := h.startBeat()
		require.True(t, ok)
		go h.sendBeat(n)
		h.Stop()
		<-h.idle
	}
}

// TestClaimsDiffer checks that each attempt to take over is a sign of life: a host whose first beat
// was too slow tries again.
func TestClaimsDiffer(t *testing.T) {
	f := new(fakeStore)
	w := NewWaiter(testConfig(f))
	require.True(t, w.write())
	one := f.lastBeat()
	require.True(t, w.write())
	assert.Greater(t, f.lastBeat().Count, one.Count)
	w.sent = tenure.Now()
	h := w.host()
	defer h.Stop()
	n, ok := h.startBeat()
	require.True(t, ok)
	h.sendBeat(n)
	assert.Greater(t, f.lastBeat().Count, one.Count+1)
}

// TestStopWhileClaiming checks that a host that is stopped when it has just written its first beat is
// returned, so that it can release the directory: others would wait for it and fence it.
func TestStopWhileClaiming(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fakeStore{beat: encodeBeat(t, "a", Released, 1), write: func(int, []byte) error {
		cancel()
		return nil
	}}
	h, err := NewWaiter(testConfig(f)).Wait(ctx)
	require.NoError(t, err)
	require.NoError(t, h.Release())
	assert.Equal(t, Released, f.lastBeat().State)
}

// TestNames checks that a host with a name that must not become an argument of a command does not wait.
func TestNames(t *testing.T) {
	for _, name := range []string{"", "-rf", "a b", "a\nb", "\x1b[2J", "a\u00e9", strings.Repeat("a", 65)} {
		cfg := testConfig(new(fakeStore))
		cfg.Beat.Host = name
		_, err := NewWaiter(cfg).Wait(t.Context())
		assert.ErrorContains(t, err, "the host name ", name)
	}
}
