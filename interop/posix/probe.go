package posix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const permissions = 0o7777 // the bits that chmod sets

// The number of await's looks, and the time between them.
const (
	awaited    = 1000
	awaitPause = 2 * time.Millisecond
)

// The users of the cases, beside root.
const (
	user       = 1000
	group      = 1001
	otherUser  = 1100
	otherGroup = 2000
)

// A probe is a running case.
type probe struct {
	dir   string // of the case
	clock string // a file of the same file system, whose times tick reads
	lines []string
	fds   []int    // opened by fd
	later []func() // functions to run at the end, last first
}

// take runs the case and removes its files.
func (p *probe) take(c Case) error {
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		return err
	}
	p.apart(func() error { return nil }, func() { c.run(p) })
	for _, f := range slices.Backward(p.later) {
		f()
	}
	if err := os.RemoveAll(p.dir); err != nil {
		p.say("not removed: %s", word(err))
		return os.Rename(p.dir, fmt.Sprintf("%s.left.%d", p.dir, os.Getpid()))
	}
	return nil
}

// apart runs f on a separate thread that enter has prepared, and reports
// whether f returned. The thread ends with f, so that no other goroutine
// inherits its state.
func (p *probe) apart(enter func() error, f func()) bool {
	ended := make(chan bool)
	go func() {
		runtime.LockOSThread()
		done := false
		defer func() { ended <- done }()
		p.need(enter())
		f()
		done = true
	}()
	return <-ended
}

// as runs f as another user. Linux keeps users per thread.
func (p *probe) as(uid, gid int, groups []uint32, f func()) {
	p.also(func() error { return become(uid, gid, groups) }, f)
}

// also is apart in the middle of a case. If f does not return, the case ends.
func (p *probe) also(enter func() error, f func()) {
	if !p.apart(enter, f) {
		runtime.Goexit()
	}
}

func become(uid, gid int, groups []uint32) error {
	var first unsafe.Pointer
	if len(groups) > 0 {
		first = unsafe.Pointer(&groups[0])
	}
	// Package syscall's call would change all threads.
	if _, _, e := syscall.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(first), 0); e != 0 {
		return e
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); e != 0 {
		return e
	}
	if _, _, e := syscall.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
		return e
	}
	return nil
}

// another runs f with a separate table of descriptors, which begins as a copy:
// for record locks, f is another process.
func (p *probe) another(f func()) {
	p.also(p.split, func() {
		f()
		p.forget()
	})
}

// split gives the thread a separate table of descriptors.
func (p *probe) split() error { return unix.Unshare(unix.CLONE_FILES) }

// forget closes the copies of fd's descriptors at once; the end of the thread
// would close them later.
func (p *probe) forget() {
	for _, fd := range p.fds {
		_ = unix.Close(fd)
	}
}

// await waits until f returns true, or gives up: some effects of a call show on
// a mount a moment later.
func (p *probe) await(f func() bool) {
	for range awaited {
		if f() {
			return
		}
		time.Sleep(awaitPause)
	}
}

// say records a result.
func (p *probe) say(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

// result records the result of a call.
func (p *probe) result(what string, err error) { p.say("%s: %s", what, word(err)) }

// word returns the name of an error.
func word(err error) string {
	var e syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &e) && unix.ErrnoName(e) != "":
		return unix.ErrnoName(e)
	default:
		return err.Error()
	}
}

// need ends the case if a precondition fails.
func (p *probe) need(err error) {
	if err == nil {
		return
	}
	_, file, line, _ := runtime.Caller(1)
	if strings.HasSuffix(file, "/files.go") || strings.HasSuffix(file, "/probe.go") {
		_, file, line, _ = runtime.Caller(2)
	}
	p.say("stopped at %s:%d: %s", filepath.Base(file), line, word(err))
	runtime.Goexit()
}

// at returns the path of a name in the case's directory, not cleaned.
func (p *probe) at(name string) string { return p.dir + "/" + name }
