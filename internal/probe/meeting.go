package probe

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	prefix     = ".nfsrdma-probe-"
	version    = 1 // of the exchange
	pollPeriod = 20 * time.Millisecond
	beatPeriod = 500 * time.Millisecond
	peerLimit  = 30 * time.Second // silence after which the other probe is dead
	maxMessage = 1 << 20          // bytes
)

// A hello describes a probe. Its probe replaces it in each beatPeriod.
type hello struct {
	Version int
	ID      string // begins with the time of the start
	Host    string
	Boot    string // distinguishes kernels
	Device  uint64 // st_dev of the directory
	Late    bool
	Peer    string // the ID of the chosen other probe
	Time    time.Time
	Beat    int
}

// A meeting is the exchange of two probes.
type meeting struct {
	dir            string
	own, other     string // directories
	peer           hello
	first          bool // this is host 1
	sent, received int

	mu       sync.Mutex
	hello    hello
	lastBeat atomic.Pointer[time.Time] // when the last own beat that was written began
	stop     chan struct{}
	beats    sync.WaitGroup

	seen      map[string]int // the last beat of each probe
	lastAlive time.Time      // when the peer's beat last changed
}

// openMeeting makes the probe's own directory. The caller must call close.
func openMeeting(dir, host string, late bool) (*meeting, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return nil, err
	}
	random := make([]byte, 8)
	_, _ = rand.Read(random) // never fails
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	m := &meeting{dir: dir, seen: map[string]int{}, stop: make(chan struct{})}
	m.hello = hello{
		Version: version, ID: fmt.Sprintf("%016x-%s", time.Now().UnixNano(), hex.EncodeToString(random)), Host: host,
		Boot: strings.TrimSpace(string(boot)), Device: st.Dev, Late: late,
	}
	m.own = filepath.Join(dir, prefix+m.hello.ID)
	if err := os.Mkdir(m.own, 0o700); err != nil {
		return nil, err
	}
	if err := m.beat(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(m.own))
	}
	m.beats.Go(m.keepBeating)
	return m, nil
}

// beat writes hello.
func (m *meeting) beat() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hello.Beat++
	now := time.Now()
	m.hello.Time = now
	if err := writeFile(filepath.Join(m.own, "hello"), m.hello); err != nil {
		return err
	}
	m.lastBeat.Store(&now)
	return nil
}

func (m *meeting) keepBeating() {
	ticker := time.NewTicker(beatPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			_ = m.beat() // a probe without beats is dead to the other
		case <-m.stop:
			return
		}
	}
}

// close removes the probe's directory, and that of a peer which cannot do so.
func (m *meeting) close(removePeer bool) {
	close(m.stop)
	m.beats.Wait()
	_ = os.RemoveAll(m.own)
	if removePeer && m.other != "" {
		_ = os.RemoveAll(m.other)
	}
}

// writeFile replaces a file of the own directory, which no other user can write.
func writeFile(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

func readFile(name string, v any) error {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxMessage))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, v)
}

// meet waits for the other probe.
func (m *meeting) meet(ctx context.Context) error {
	for {
		m.lastAlive = time.Now()
		others, err := m.living()
		if err != nil {
			return err
		}
		chosen, err := m.choose(others)
		if err != nil {
			return errors.Join(err, sleep(ctx, 4*beatPeriod)) // the others must see why
		}
		if chosen {
			return nil
		}
		if err := sleep(ctx, 5*pollPeriod); err != nil {
			return err
		}
	}
}

// living returns the other probes whose beats change.
func (m *meeting) living() (list []hello, err error) {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) || e.Name() == filepath.Base(m.own) || !e.IsDir() {
			continue
		}
		var h hello
		if readFile(filepath.Join(m.dir, e.Name(), "hello"), &h) != nil || prefix+h.ID != e.Name() {
			continue // not complete, or being removed
		}
		last, known := m.seen[h.ID]
		if m.seen[h.ID] = h.Beat; known && (last != h.Beat || h.Peer == m.hello.ID) {
			list = append(list, h)
		} else if known {
			m.seen[h.ID] = last
		}
	}
	return list, nil
}

// choose chooses the probe that has chosen this one, or else the only other one, and reports whether
// they have chosen each other. A choice stands until the other probe ends.
func (m *meeting) choose(others []hello) (done bool, err error) {
	if m.hello.Peer != "" {
		return m.awaitChoice(others)
	}
	if len(others) == 0 {
		return false, nil
	}
	h := others[0]
	if i := slices.IndexFunc(others, func(h hello) bool { return h.Peer == m.hello.ID }); i >= 0 {
		h = others[i]
	} else if len(others) > 1 || h.Peer != "" {
		return false, m.tooMany(others)
	}
	if err := m.checkPeer(h); err != nil {
		return false, err
	}
	m.peer, m.other = h, filepath.Join(m.dir, prefix+h.ID)
	m.first = m.hello.ID < h.ID
	m.setPeer(h.ID)
	return h.Peer == m.hello.ID, m.beat()
}

// awaitChoice reports whether the chosen probe has chosen this one.
func (m *meeting) awaitChoice(others []hello) (done bool, err error) {
	for _, h := range others {
		switch {
		case h.ID != m.hello.Peer || h.Peer == "":
		case h.Peer == m.hello.ID:
			return true, nil
		default:
			return false, m.tooMany(others)
		}
	}
	if m.hasPeerEnded() {
		m.setPeer("")
	}
	return false, nil
}

func (m *meeting) setPeer(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hello.Peer = id
}

// hasPeerEnded reports whether the other probe has removed its directory.
func (m *meeting) hasPeerEnded() bool {
	_, err := os.Lstat(m.other)
	return errors.Is(err, os.ErrNotExist)
}

// checkPeer checks that two probes can work together.
func (m *meeting) checkPeer(h hello) error {
	switch {
	case h.Version != version:
		return fmt.Errorf("host %s has another version of probe (%d, this is %d): install the same version of nfsrdmad on both hosts", h.Host, h.Version, version)
	case h.Late != m.hello.Late:
		return fmt.Errorf("host %s runs the other test: start both with --late, or both without", h.Host)
	case h.Boot == m.hello.Boot && h.Device == m.hello.Device:
		return errors.New("the other probe uses the same mount on the same host: start it on the other host")
	case h.Host == m.hello.Host:
		return fmt.Errorf("both hosts have the name %s: give one of them another with --name", h.Host)
	}
	return nil
}

func (m *meeting) tooMany(others []hello) error {
	return fmt.Errorf("more than two probes run in %s (on %s): wait until the others are done, or stop them", m.dir, hostsOf(others))
}

func hostsOf(list []hello) string {
	var names []string
	for _, h := range list {
		names = append(names, h.Host)
	}
	return strings.Join(names, ", ")
}

// tell sends a message.
func (m *meeting) tell(v any) error {
	m.sent++
	return writeFile(filepath.Join(m.own, fmt.Sprint(m.sent)), v)
}

// hear receives the next message, within limit since the other's last beat.
func (m *meeting) hear(ctx context.Context, v any, limit time.Duration) error {
	for {
		if ok, err := m.tryHear(v); ok || err != nil {
			return err
		}
		if m.hasPeerEnded() {
			return fmt.Errorf("the probe of host %s has ended: it says why", m.peer.Host)
		}
		if silence := m.silence(); silence > limit {
			return fmt.Errorf("host %s is silent for %.0f s: its probe has ended, or its file system does not respond", m.peer.Host, silence.Seconds())
		}
		if err := sleep(ctx, pollPeriod); err != nil {
			return err
		}
	}
}

// tryHear receives the next message if it is there.
func (m *meeting) tryHear(v any) (ok bool, err error) {
	err = readFile(filepath.Join(m.other, fmt.Sprint(m.received+1)), v)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		m.received++
	}
	return err == nil, err
}

// silence returns the time since the other's beat was last seen to change.
func (m *meeting) silence() time.Duration {
	var h hello
	if err := readFile(filepath.Join(m.other, "hello"), &h); err == nil && h.Beat != m.seen[h.ID] {
		m.seen[h.ID] = h.Beat
		m.lastAlive, m.peer.Time = time.Now(), h.Time
	}
	return time.Since(m.lastAlive)
}

// ownSilence returns the time since an own beat began that has reached the file system.
func (m *meeting) ownSilence() time.Duration { return time.Since(*m.lastBeat.Load()) }

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
