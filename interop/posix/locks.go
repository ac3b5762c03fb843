package posix

import "golang.org/x/sys/unix"

var lockCases = []Case{
	{"record-lock", anyone, recordLock},
	{"record-lock-shared", anyone, recordLockShared},
	{"record-lock-ranges", anyone, recordLockRanges},
	{"record-lock-split", anyone, recordLockSplit},
	{"record-lock-close", anyone, recordLockClose},
	{"record-lock-wait", anyone, recordLockWait},
	{"record-lock-wrong", anyone, recordLockWrong},
	{"record-lock-renamed", anyone, recordLockRenamed},
	{"open-file-lock", anyone, openFileLock},
}

// fcntlLock requests a lock on n bytes from an offset; 0 means to the end.
func fcntlLock(fd int, command int, kind int16, from, n int64) (unix.Flock_t, error) {
	l := unix.Flock_t{Type: kind, Start: from, Len: n}
	return l, unix.FcntlFlock(uintptr(fd), command, &l)
}

// lockFile asks for a lock; the close releases it.
func (p *probe) lockFile(name string, kind int16, from, n int64) error {
	fd, err := unix.Open(p.pathOf(name), unix.O_RDWR|unix.O_CLOEXEC, 0)
	p.mustSucceed(err)
	defer unix.Close(fd)
	_, err = fcntlLock(fd, unix.F_SETLK, kind, from, n)
	return err
}

// sayLocks records the locks that another process would find on some bytes.
func (p *probe) sayLocks(name string, from, n int64) {
	p.runAsProcess(func() {
		fd, err := unix.Open(p.pathOf(name), unix.O_RDWR|unix.O_CLOEXEC, 0)
		p.mustSucceed(err)
		defer unix.Close(fd)
		l, err := fcntlLock(fd, unix.F_GETLK, unix.F_WRLCK, from, n)
		switch {
		case err != nil:
			p.sayError("ask", err)
		case l.Type == unix.F_UNLCK:
			p.say("%d from %d: free", n, from)
		default:
			kind := map[int16]string{unix.F_RDLCK: "read", unix.F_WRLCK: "write"}[l.Type]
			p.say("%d from %d: %s lock of %d from %d", n, from, kind, l.Len, l.Start)
		}
	})
}

// lockOwn changes this process's lock and records the result.
func (p *probe) lockOwn(fd int, what string, kind int16, from, n int64) {
	_, err := fcntlLock(fd, unix.F_SETLK, kind, from, n)
	p.sayError(what, err)
}

func recordLock(p *probe) {
	p.makeFile("f", "")
	fd := p.openFD("f", unix.O_RDWR)
	p.lockOwn(fd, "write lock", unix.F_WRLCK, 0, 0)
	p.lockOwn(fd, "again", unix.F_WRLCK, 0, 0)
	p.sayLocks("f", 0, 0)
	p.sayLocks("f", 1<<40, 10) // far after the end
	p.runAsProcess(func() {
		p.sayError("write lock of another", p.lockFile("f", unix.F_WRLCK, 0, 0))
		p.sayError("read lock of another", p.lockFile("f", unix.F_RDLCK, 5, 5))
	})
	p.lockOwn(fd, "unlock", unix.F_UNLCK, 0, 0)
	p.sayLocks("f", 0, 0)
	p.runAsProcess(func() { p.sayError("write lock of another", p.lockFile("f", unix.F_WRLCK, 0, 0)) })
}

func recordLockShared(p *probe) {
	p.makeFile("f", "")
	fd := p.openFD("f", unix.O_RDWR)
	p.lockOwn(fd, "read lock", unix.F_RDLCK, 0, 10)
	p.runAsProcess(func() {
		p.sayError("read lock of another", p.lockFile("f", unix.F_RDLCK, 0, 10))
		p.sayError("write lock of another", p.lockFile("f", unix.F_WRLCK, 9, 1))
		p.sayError("write lock behind", p.lockFile("f", unix.F_WRLCK, 10, 1))
	})
	p.lockOwn(fd, "upgrade", unix.F_WRLCK, 0, 10)
	p.runAsProcess(func() { p.sayError("read lock of another", p.lockFile("f", unix.F_RDLCK, 0, 10)) })
	p.lockOwn(fd, "downgrade", unix.F_RDLCK, 0, 10)
	p.runAsProcess(func() { p.sayError("read lock of another", p.lockFile("f", unix.F_RDLCK, 0, 10)) })
}

func recordLockRanges(p *probe) {
	p.makeFile("f", "")
	fd := p.openFD("f", unix.O_RDWR)
	p.lockOwn(fd, "lock", unix.F_WRLCK, 10, 10)
	p.lockOwn(fd, "lock behind it", unix.F_WRLCK, 20, 10)
	p.lockOwn(fd, "lock apart", unix.F_WRLCK, 40, 10)
	for _, from := range []int64{0, 9, 10, 29, 30, 45, 50} {
		p.sayLocks("f", from, 1)
	}
	p.sayLocks("f", 0, 0)
}

func recordLockSplit(p *probe) {
	p.makeFile("f", "")
	fd := p.openFD("f", unix.O_RDWR)
	p.lockOwn(fd, "lock", unix.F_WRLCK, 0, 100)
	p.lockOwn(fd, "unlock the middle", unix.F_UNLCK, 40, 20)
	p.sayLocks("f", 39, 1)
	p.sayLocks("f", 40, 20)
	p.sayLocks("f", 60, 1)
	p.lockOwn(fd, "read lock of a part", unix.F_RDLCK, 70, 10)
	p.sayLocks("f", 60, 1)
	p.sayLocks("f", 75, 1)
	p.sayLocks("f", 80, 1)
}

// Any close of the file releases its process's locks.
func recordLockClose(p *probe) {
	p.makeFile("f", "")
	fd := p.openFD("f", unix.O_RDWR)
	p.lockOwn(fd, "lock", unix.F_WRLCK, 0, 10)
	p.sayLocks("f", 0, 10)
	p.tryOpen("open and close", "f", unix.O_RDONLY)
	p.sayLocks("f", 0, 10)
}

func recordLockWait(p *probe) {
	p.makeFile("f", "")
	fd := p.openFD("f", unix.O_RDWR)
	p.lockOwn(fd, "lock", unix.F_WRLCK, 0, 0)
	asked, got := make(chan bool), make(chan error, 1)
	go p.runOnThread(p.unshareFiles, func() {
		close(asked)
		_, err := fcntlLock(fd, unix.F_SETLKW, unix.F_WRLCK, 3, 4)
		for err == unix.EINTR {
			_, err = fcntlLock(fd, unix.F_SETLKW, unix.F_WRLCK, 3, 4)
		}
		p.closeCopies()
		got <- err
	})
	<-asked
	select {
	case err := <-got:
		p.sayError("did not wait", err)
	default:
	}
	p.lockOwn(fd, "unlock", unix.F_UNLCK, 0, 0)
	p.sayError("waited", <-got)
}

func recordLockWrong(p *probe) {
	p.makeFile("f", "")
	r, w := p.openFD("f", unix.O_RDONLY), p.openFD("f", unix.O_WRONLY)
	p.lockOwn(r, "write lock of a reader", unix.F_WRLCK, 0, 0)
	p.lockOwn(w, "read lock of a writer", unix.F_RDLCK, 0, 0)
	p.lockOwn(w, "below zero", unix.F_WRLCK, -1, 0)
	p.lockOwn(w, "backwards", unix.F_WRLCK, 10, -5)
	p.sayLocks("f", 5, 5)
	p.sayLocks("f", 4, 1)
}

func recordLockRenamed(p *probe) {
	p.makeFile("f", "")
	p.lockOwn(p.openFD("f", unix.O_RDWR), "lock", unix.F_WRLCK, 0, 0)
	p.mustSucceed(unix.Rename(p.pathOf("f"), p.pathOf("g")))
	p.sayLocks("g", 0, 0)
	p.makeFile("f", "")
	p.sayLocks("f", 0, 0)
}

func openFileLock(p *probe) {
	p.makeFile("f", "")
	a, b := p.openFD("f", unix.O_RDWR), p.openFD("f", unix.O_RDWR)
	set := func(what string, fd int, kind int16, from, n int64) {
		_, err := fcntlLock(fd, unix.F_OFD_SETLK, kind, from, n)
		p.sayError(what, err)
	}
	set("one", a, unix.F_WRLCK, 0, 10)
	set("two", b, unix.F_WRLCK, 5, 10)
	set("two, behind", b, unix.F_WRLCK, 10, 10)
	set("unlock", a, unix.F_UNLCK, 0, 0)
	set("two", b, unix.F_WRLCK, 5, 10)
}
