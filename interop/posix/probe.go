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

// The number of checks by awaitTrue, and the time between them.
const (
	awaited    = 1000
	awaitPause = 2 * time.Millisecond
)

// The users in the cases, besides root.
const (
	user       = 1000
	group      = 1001
	otherUser  = 1100
	otherGroup = 2000
)

// A probe is a running case.
type probe struct {
	dir   string // the case's directory
	clock string // a file of the same file system, whose times tick reads
	lines []string
	fds   []int    // opened by fd
	later []func() // functions to run at the end, last first
}

// runCase runs the case and removes its files.
func (p *probe) runCase(c Case) error {
	if err := os.Mkdir(p.dir, 0o755); err != nil {
		return err
	}
	p.runOnThread(func() error { return nil }, func() { c.run(p) })
	for _, f := range slices.Backward(p.later) {
		f()
	}
	if err := os.RemoveAll(p.dir); err != nil {
		p.say("not removed: %s", errorName(err))
		return os.Rename(p.dir, fmt.Sprintf("%s.left.%d", p.dir, os.Getpid()))
	}
	return nil
}

// runOnThread runs f on a separate thread that enter has prepared, and reports
// whether f returned. The thread ends with f, so that no other goroutine
// inherits its state.
func (p *probe) runOnThread(enter func() error, f func()) bool {
	ended := make(chan bool)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			// The main thread does not end, and /proc/self shows its descriptors.
			ended <- p.runOnThread(enter, f)
			runtime.UnlockOSThread()
			return
		}
		done := false
		defer func() { ended <- done }()
		p.mustSucceed(enter())
		f()
		done = true
	}()
	return <-ended
}

// runAs runs f as another user. Linux keeps users per thread.
func (p *probe) runAs(uid, gid int, groups []uint32, f func()) {
	p.continueOnThread(func() error { return setUser(uid, gid, groups) }, f)
}

// continueOnThread calls runOnThread in the middle of a case. If f does not return, the
// case ends.
func (p *probe) continueOnThread(enter func() error, f func()) {
	if !p.runOnThread(enter, f) {
		runtime.Goexit()
	}
}

func setUser(uid, gid int, groups []uint32) error {
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

// runAsProcess runs f with a separate descriptor table, which starts as a copy:
// for record locks, f is another process.
func (p *probe) runAsProcess(f func()) {
	p.continueOnThread(p.unshareFiles, func() {
		f()
		p.closeCopies()
	})
}

// unshareFiles gives the thread a separate descriptor table.
func (p *probe) unshareFiles() error { return unix.Unshare(unix.CLONE_FILES) }

// closeCopies closes the copies of openFD's descriptors at once; otherwise they would
// stay open until the thread exits.
func (p *probe) closeCopies() {
	for _, fd := range p.fds {
		_ = unix.Close(fd)
	}
}

// awaitTrue waits until f returns true, or gives up: some effects of a call become
// visible on a mount a moment later.
func (p *probe) awaitTrue(f func() bool) {
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

// sayError records a call's result.
func (p *probe) sayError(what string, err error) { p.say("%s: %s", what, errorName(err)) }

// errorName returns an error's name.
func errorName(err error) string {
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

// mustSucceed ends the case if a precondition fails.
func (p *probe) mustSucceed(err error) {
	if err == nil {
		return
	}
	_, file, line, _ := runtime.Caller(1)
	if strings.HasSuffix(file, "/files.go") || strings.HasSuffix(file, "/probe.go") {
		_, file, line, _ = runtime.Caller(2)
	}
	p.say("stopped at %s:%d: %s", filepath.Base(file), line, errorName(err))
	runtime.Goexit()
}

// pathOf returns a name's path in the case's directory, not cleaned.
func (p *probe) pathOf(name string) string { return p.dir + "/" + name }
