//go:build linux

package posix

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// leaseSignal reports a broken lease. It is a real-time signal: each instance
// is queued with its descriptor. C libraries use the first few real-time
// signals.
const leaseSignal = unix.Signal(40)

// overflowSignal replaces leaseSignal if no more signals can be queued
// (RLIMIT_SIGPENDING), and stands for any number of leases. It also wakes the
// watcher.
const overflowSignal = unix.SIGIO

// ownerTID is F_OWNER_TID of fcntl(2).
const ownerTID = 0

// A watcher is a thread that receives signals about broken leases. Both signals
// are sent to this thread alone and blocked in it alone, so no other thread and
// none of Go's signal handlers ever gets one.
type watcher struct {
	tid     int
	fd      int // a signalfd
	tell    func(fd int)
	tellAll func()
	ending  atomic.Bool
	ended   chan struct{}
}

// watch starts a watcher that calls tell with the descriptor of a broken lease,
// or tellAll if it cannot name the descriptors. Either may be called although
// no lease is broken.
func watch(tell func(fd int), tellAll func()) (*watcher, error) {
	w := &watcher{tell: tell, tellAll: tellAll, ended: make(chan struct{})}
	ready := make(chan error)
	go w.run(ready)
	if err := <-ready; err != nil {
		<-w.ended
		return nil, fmt.Errorf("a thread for leases: %w", err)
	}
	return w, nil
}

// close ends the thread.
func (w *watcher) close() {
	w.ending.Store(true)
	_ = unix.Tgkill(unix.Getpid(), w.tid, overflowSignal) // cannot fail: the thread exists
	<-w.ended
}

// own makes the kernel signal the watcher about a lease that fd will have.
func (w *watcher) own(fd int) error {
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(leaseSignal)); err != nil {
		return err
	}
	owner := struct{ kind, pid int32 }{ownerTID, int32(w.tid)}
	_, _, e := unix.Syscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETOWN_EX, uintptr(unsafe.Pointer(&owner)))
	return errnoErr(e)
}

// run stays locked to its thread, which ends when run returns, along with its
// signal mask and pending signals.
func (w *watcher) run(ready chan<- error) {
	defer close(w.ended)
	runtime.LockOSThread()
	w.tid = unix.Gettid()
	set := sigset(leaseSignal, overflowSignal)
	err := unix.PthreadSigmask(unix.SIG_BLOCK, &set, nil)
	if err == nil {
		w.fd, err = unix.Signalfd(-1, &set, unix.SFD_CLOEXEC)
	}
	ready <- err
	if err != nil {
		return
	}
	defer closeFD(w.fd)
	var b [64 * signalLen]byte
	for !w.ending.Load() {
		n, err := retry(func() (int, error) { return unix.Read(w.fd, b[:]) })
		if err != nil {
			panic(fmt.Sprintf("vfs/posix: reading signals: %v", err)) // a signalfd has no errors
		}
		w.heard(b[:n])
	}
}

// heard parses the content read from a signalfd: consecutive struct
// signalfd_siginfo.
func (w *watcher) heard(b []byte) {
	overflow := false
	for ; len(b) >= signalLen; b = b[signalLen:] {
		if unix.Signal(binary.NativeEndian.Uint32(b)) == leaseSignal {
			w.tell(int(int32(binary.NativeEndian.Uint32(b[signalFD:]))))
		} else {
			overflow = true
		}
	}
	if overflow && !w.ending.Load() {
		w.tellAll()
	}
}

// signalLen and signalFD are the length of struct signalfd_siginfo and the
// offset of ssi_fd in it, in bytes.
const (
	signalLen = int(unsafe.Sizeof(unix.SignalfdSiginfo{}))
	signalFD  = int(unsafe.Offsetof(unix.SignalfdSiginfo{}.Fd))
)

func sigset(signals ...unix.Signal) (set unix.Sigset_t) {
	const word = 8 * unsafe.Sizeof(set.Val[0])
	for _, s := range signals {
		n := uintptr(s - 1)
		set.Val[n/word] |= 1 << (n % word)
	}
	return set
}
