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

const permissions = 0o7777 // what chmod sets

// How often, and how long apart, await looks.
const (
	awaited    = 1000
	awaitPause = 2 * time.Millisecond
)

// Who the cases act as, beside root.
const (
	user       = 1000
	group      = 1001
	otherUser  = 1100
	otherGroup = 2000
)

// A probe is one case under way.
type probe struct {
	dir   string // its own
	clock string // a file of the same file system, whose times tick reads
	lines []string
	fds   []int    // opened by fd
	later []func() // what to do at the end, last first
}

// take does the case and removes what it leaves.
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

// apart runs f on a thread of its own that enter has prepared, and reports whether
// it came to its end. The thread ends with f, so nobody inherits what it is.
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

// also is apart in the middle of a case, which does not go on if f does not.
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
	// Not by package syscall, which changes all threads.
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

// another runs f with a table of descriptors of its own, which begins as a copy:
// as far as record locks go, as another process.
func (p *probe) another(f func()) {
	p.also(p.split, func() {
		f()
		p.forget()
	})
}

// split gives the thread a table of descriptors of its own.
func (p *probe) split() error { return unix.Unshare(unix.CLONE_FILES) }

// forget closes the copies of what fd has opened: at the end of the thread would be
// some time later.
func (p *probe) forget() {
	for _, fd := range p.fds {
		_ = unix.Close(fd)
	}
}

// await returns when something is so, or will not be: some things are so on a mount a
// moment after the call that makes them so.
func (p *probe) await(f func() bool) {
	for range awaited {
		if f() {
			return
		}
		time.Sleep(awaitPause)
	}
}

// say notes a result.
func (p *probe) say(format string, args ...any) {
	p.lines = append(p.lines, fmt.Sprintf(format, args...))
}

// result notes how a call ended.
func (p *probe) result(what string, err error) { p.say("%s: %s", what, word(err)) }

// word is the name of an error.
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

// need ends the case if what it stands on cannot be done.
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

// at is the path of a name in the case's directory, as it is written.
func (p *probe) at(name string) string { return p.dir + "/" + name }
