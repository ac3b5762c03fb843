package clusterfs

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	maxWrite    = 128 << 10        // bytes of data in a message
	maxMessage  = maxWrite + 4<<10 // bytes
	watchPeriod = 50 * time.Millisecond
)

// Opcodes of FUSE (linux/fuse.h), as far as a session distinguishes them.
const (
	opForget      = 2
	opSetlkw      = 33
	opInterrupt   = 36
	opBatchForget = 42
)

// A hold says what keeps a host's messages from the engine.
type hold int

const (
	holdNothing  hold = iota
	holdRequests      // requests wait, but the host is not silent
	holdAll           // nothing arrives, and no reply leaves
)

// A session is one mount of one host.
type session struct {
	engine *engine
	host   string
	fd     int // the socket
	pid    int // the mount process

	protocol *fuse.ProtocolServer
	handles  handleTable
	lookups  map[uint64]uint64 // references to nodes; guarded by the node table's mutex
	requests sync.WaitGroup
	exited   chan struct{} // closed when the mount process has exited

	// gate is locked for reading while an operation is executed, and for writing to set
	// fenced.
	gate   sync.RWMutex
	fenced atomic.Bool

	mu        sync.Mutex
	hold      hold
	changed   chan struct{} // closed and replaced when hold changes
	delay     time.Duration // before each request
	lastAlive time.Time     // when the host was last not silent
	over      chan struct{} // closed while the host is given up
	givenUp   bool
}

func (e *engine) newSession(host string, fd, pid int) *session {
	s := &session{
		engine: e, host: host, fd: fd, pid: pid, lastAlive: time.Now(), lookups: map[uint64]uint64{},
		exited: make(chan struct{}), changed: make(chan struct{}), over: make(chan struct{}),
	}
	s.protocol = fuse.NewProtocolServer(&rawFS{RawFileSystem: fuse.NewDefaultRawFileSystem(), s: s, e: e}, &fuse.MountOptions{
		MaxWrite: maxWrite, EnableLocks: true, DisableReadDirPlus: true, DisableXAttrs: true,
		Logger: log.New(io.Discard, "", 0),
	})
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sessions[s] = struct{}{}
	return s
}

// serve serves the session until its mount process has exited and the engine has given
// the host up.
func (s *session) serve() {
	var watch sync.WaitGroup
	watch.Go(s.watch)
	s.readRequests()
	close(s.exited)
	s.requests.Wait()
	s.handles.closeAll()
	s.engine.nodes.forgetAll(s)
	watch.Wait()
	s.engine.mu.Lock()
	delete(s.engine.sessions, s)
	s.engine.mu.Unlock()
}

func (s *session) readRequests() {
	for {
		buf := make([]byte, maxMessage)
		n, err := readMessage(s.fd, buf)
		if err != nil || n == 0 {
			return
		}
		s.noteAlive()
		s.requests.Go(func() { s.execute(buf[:n]) })
	}
}

// execute executes a request and sends the reply. What is held when the mount process
// exits is lost.
func (s *session) execute(request []byte) {
	if !s.passes(holdRequests) {
		return
	}
	reply := make([]byte, maxMessage)
	if n := s.executeInGate(request, reply); n > 0 && s.passes(holdAll) {
		writeMessage(s.fd, reply[:n]) // an error means that the process has exited
	}
}

func (s *session) executeInGate(request, reply []byte) (n int) {
	opcode := binary.NativeEndian.Uint32(request[4:])
	if opcode != opSetlkw { // which may wait long; lockTable checks fenced
		s.gate.RLock()
		defer s.gate.RUnlock()
		if s.fenced.Load() {
			return s.reject(request, reply)
		}
	}
	n, _ = s.protocol.HandleRequest([][]byte{request}, [][]byte{reply})
	return n
}

// reject encodes the reply ESHUTDOWN, unless the request has no reply.
func (s *session) reject(request, reply []byte) (n int) {
	opcode := binary.NativeEndian.Uint32(request[4:])
	if opcode == opForget || opcode == opBatchForget || opcode == opInterrupt {
		return 0
	}
	s.engine.records.add(Record{Host: s.host, Op: "rejected", Errno: unix.ESHUTDOWN})
	status := -int32(unix.ESHUTDOWN)
	binary.NativeEndian.PutUint32(reply, 16) // the length
	binary.NativeEndian.PutUint32(reply[4:], uint32(status))
	copy(reply[8:16], request[8:16]) // the request's identifier
	return 16
}

// passes waits while messages are held by h, and for the delay of requests. It reports
// false if the mount process exits before.
func (s *session) passes(h hold) bool {
	for {
		s.mu.Lock()
		held, changed, delay := s.hold, s.changed, s.delay
		s.mu.Unlock()
		if held < h {
			if h == holdRequests {
				time.Sleep(delay)
			}
			return true
		}
		select {
		case <-changed:
		case <-s.exited:
			return false
		}
	}
}

func (s *session) setHold(h hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = h
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *session) setDelay(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// noteAlive notes a sign of life. A host that is given up without a fence may lock
// again.
func (s *session) noteAlive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hold == holdAll {
		return
	}
	s.lastAlive = time.Now()
	if s.givenUp && !s.fenced.Load() {
		s.givenUp, s.over = false, make(chan struct{})
	}
}

// isSilent reports whether the host is cut off, or its mount process is stopped. Periodic
// messages of that process would come late on a busy machine, and then the engine would
// give up a healthy host.
func (s *session) isSilent() bool {
	s.mu.Lock()
	cut := s.hold == holdAll
	s.mu.Unlock()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return cut || err == nil && strings.HasPrefix(state, "T")
}

// watch gives the host up when the time has come, until nothing is left to give up.
func (s *session) watch() {
	ticker := time.NewTicker(watchPeriod)
	defer ticker.Stop()
	exited := s.exited
	for {
		select {
		case <-ticker.C:
			if exited != nil && !s.isSilent() {
				s.noteAlive()
				continue
			}
		case <-exited:
			exited = nil
			s.mu.Lock() // lost at once
			s.lastAlive = time.Now().Add(-s.engine.options.Silence)
			s.mu.Unlock()
		}
		if s.isDue() {
			s.giveUp(s.engine.options.Fences)
		}
		if exited == nil && s.isOver() {
			return
		}
	}
}

func (s *session) isDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.engine.options
	return !s.givenUp && o.KeepLocks != Never && time.Since(s.lastAlive) >= o.Silence+o.KeepLocks
}

func (s *session) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.givenUp
}

// giveUp releases the host's locks. With fence, nothing that the session sends is
// executed from then on.
func (s *session) giveUp(fence bool) {
	if fence {
		s.gate.Lock()
		s.fenced.Store(true)
		s.gate.Unlock()
	}
	s.mu.Lock()
	if !s.givenUp {
		s.givenUp = true
		close(s.over)
	}
	s.mu.Unlock()
	s.engine.records.add(Record{Host: s.host, Op: "given up"})
	s.engine.locks.releaseSession(s)
}
