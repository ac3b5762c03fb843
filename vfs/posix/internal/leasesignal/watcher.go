//go:build linux

package leasesignal

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Signal reports a broken lease. It is a real-time signal: each instance is queued with its
// descriptor. C libraries use the first few real-time signals.
const Signal = unix.Signal(40)

// OverflowSignal replaces Signal if no more signals can be queued (RLIMIT_SIGPENDING), and
// represents any number of leases. It also wakes the watcher.
const OverflowSignal = unix.SIGIO

// ownerTID is fcntl(2)'s F_OWNER_TID.
const ownerTID = 0

// A Watcher is a thread that receives signals about broken leases. Both signals are sent only to
// this thread and blocked only in it, so no other thread and none of Go's signal handlers ever gets
// one.
type Watcher struct {
	tid       int
	fd        int // a signalfd
	notifyFD  func(fd int)
	notifyAll func()
	ending    atomic.Bool
	ended     chan struct{}
}

// Start starts a Watcher that calls notifyFD with a broken lease's descriptor, or notifyAll if it
// cannot name the descriptors. Either may be called although no lease is broken.
func Start(notifyFD func(fd int), notifyAll func()) (*Watcher, error) {
	w := &Watcher{notifyFD: notifyFD, notifyAll: notifyAll, ended: make(chan struct{})}
	ready := make(chan error)
	go w.readSignals(ready)
	if err := <-ready; err != nil {
		<-w.ended
		return nil, fmt.Errorf("starting the lease thread: %w", err)
	}
	return w, nil
}

// Stop stops the thread.
func (w *Watcher) Stop() {
	w.ending.Store(true)
	_ = unix.Tgkill(unix.Getpid(), w.tid, OverflowSignal) // cannot fail: the thread exists
	<-w.ended
}

// SetOwner makes the kernel signal the watcher about a lease that fd will have.
func (w *Watcher) SetOwner(fd int) error {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(Signal)); err != nil {
		return err
	}
	owner := struct{ kind, pid int32 }{ownerTID, int32(w.tid)}
	_, _, e := unix.Syscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETOWN_EX, uintptr(unsafe.Pointer(&owner)))
	if e != 0 {
		return e
	}
	return nil
}

// readSignals stays locked to its thread, which exits when readSignals returns, along with its
// signal mask and pending signals.
func (w *Watcher) readSignals(ready chan<- error) {
	defer close(w.ended)
	runtime.LockOSThread()
	w.tid = unix.Gettid()
	set := signalSet(Signal, OverflowSignal)
	err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
	if err == nil {
		w.fd, err = unix.Signalfd(-1, &set, unix.SFD_CLOEXEC)
	}
	ready <- err
	if err != nil {
		return
	}
	defer unix.Close(w.fd)
	var b [64 * signalLen]byte
	for !w.ending.Load() {
		n, err := unix.Read(w.fd, b[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			panic(fmt.Sprintf("vfs/posix: reading signals: %v", err)) // a signalfd has no errors
		}
		w.parseSignals(b[:n])
	}
}

// parseSignals parses the content read from a signalfd: consecutive struct
// signalfd_siginfo.
func (w *Watcher) parseSignals(b []byte) {
	overflow := false
	for ; len(b) >= signalLen; b = b[signalLen:] {
		if unix.Signal(binary.NativeEndian.Uint32(b)) == Signal {
			w.notifyFD(int(int32(binary.NativeEndian.Uint32(b[signalFD:]))))
		} else {
			overflow = true
		}
	}
	if overflow && !w.ending.Load() {
		w.notifyAll()
	}
}

// signalLen and signalFD are the length of struct signalfd_siginfo and the
// offset of ssi_fd in it, in bytes.
const (
	signalLen = int(unsafe.Sizeof(unix.SignalfdSiginfo{}))
	signalFD  = int(unsafe.Offsetof(unix.SignalfdSiginfo{}.Fd))
)

func signalSet(signals ...unix.Signal) (set unix.Sigset_t) {
	const word = 8 * unsafe.Sizeof(set.Val[0])
	for _, s := range signals {
		n := uintptr(s - 1)
		set.Val[n/word] |= 1 << (n % word)
	}
	return set
}
