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

// record asks for a lock of n bytes from an offset; 0 means to the end.
func record(fd int, command int, kind int16, from, n int64) (unix.Flock_t, error) {
	l := unix.Flock_t{Type: kind, Start: from, Len: n}
	return l, unix.FcntlFlock(uintptr(fd), command, &l)
}

// lock asks for a lock; the close releases it.
func (p *probe) lock(name string, kind int16, from, n int64) error {
	fd, err := unix.Open(p.at(name), unix.O_RDWR|unix.O_CLOEXEC, 0)
	p.need(err)
	defer unix.Close(fd)
	_, err = record(fd, unix.F_SETLK, kind, from, n)
	return err
}

// held records the locks that another process would find on some bytes.
func (p *probe) held(name string, from, n int64) {
	p.another(func() {
		fd, err := unix.Open(p.at(name), unix.O_RDWR|unix.O_CLOEXEC, 0)
		p.need(err)
		defer unix.Close(fd)
		l, err := record(fd, unix.F_GETLK, unix.F_WRLCK, from, n)
		switch {
		case err != nil:
			p.result("ask", err)
		case l.Type == unix.F_UNLCK:
			p.say("%d from %d: free", n, from)
		default:
			kind := map[int16]string{unix.F_RDLCK: "read", unix.F_WRLCK: "write"}[l.Type]
			p.say("%d from %d: %s lock of %d from %d", n, from, kind, l.Len, l.Start)
		}
	})
}

// own changes a lock of this process and records the result.
func (p *probe) own(fd int, what string, kind int16, from, n int64) {
	_, err := record(fd, unix.F_SETLK, kind, from, n)
	p.result(what, err)
}

func recordLock(p *probe) {
	p.file("f", "")
	fd := p.fd("f", unix.O_RDWR)
	p.own(fd, "write lock", unix.F_WRLCK, 0, 0)
	p.own(fd, "again", unix.F_WRLCK, 0, 0)
	p.held("f", 0, 0)
	p.held("f", 1<<40, 10) // far after the end
	p.another(func() {
		p.result("write lock of another", p.lock("f", unix.F_WRLCK, 0, 0))
		p.result("read lock of another", p.lock("f", unix.F_RDLCK, 5, 5))
	})
	p.own(fd, "unlock", unix.F_UNLCK, 0, 0)
	p.held("f", 0, 0)
	p.another(func() { p.result("write lock of another", p.lock("f", unix.F_WRLCK, 0, 0)) })
}

func recordLockShared(p *probe) {
	p.file("f", "")
	fd := p.fd("f", unix.O_RDWR)
	p.own(fd, "read lock", unix.F_RDLCK, 0, 10)
	p.another(func() {
		p.result("read lock of another", p.lock("f", unix.F_RDLCK, 0, 10))
		p.result("write lock of another", p.lock("f", unix.F_WRLCK, 9, 1))
		p.result("write lock behind", p.lock("f", unix.F_WRLCK, 10, 1))
	})
	p.own(fd, "upgrade", unix.F_WRLCK, 0, 10)
	p.another(func() { p.result("read lock of another", p.lock("f", unix.F_RDLCK, 0, 10)) })
	p.own(fd, "downgrade", unix.F_RDLCK, 0, 10)
	p.another(func() { p.result("read lock of another", p.lock("f", unix.F_RDLCK, 0, 10)) })
}

func recordLockRanges(p *probe) {
	p.file("f", "")
	fd := p.fd("f", unix.O_RDWR)
	p.own(fd, "lock", unix.F_WRLCK, 10, 10)
	p.own(fd, "lock behind it", unix.F_WRLCK, 20, 10)
	p.own(fd, "lock apart", unix.F_WRLCK, 40, 10)
	for _, from := range []int64{0, 9, 10, 29, 30, 45, 50} {
		p.held("f", from, 1)
	}
	p.held("f", 0, 0)
}

func recordLockSplit(p *probe) {
	p.file("f", "")
	fd := p.fd("f", unix.O_RDWR)
	p.own(fd, "lock", unix.F_WRLCK, 0, 100)
	p.own(fd, "unlock the middle", unix.F_UNLCK, 40, 20)
	p.held("f", 39, 1)
	p.held("f", 40, 20)
	p.held("f", 60, 1)
	p.own(fd, "read lock of a part", unix.F_RDLCK, 70, 10)
	p.held("f", 60, 1)
	p.held("f", 75, 1)
	p.held("f", 80, 1)
}

// Any close of the file releases the locks of its process.
func recordLockClose(p *probe) {
	p.file("f", "")
	fd := p.fd("f", unix.O_RDWR)
	p.own(fd, "lock", unix.F_WRLCK, 0, 10)
	p.held("f", 0, 10)
	p.try("open and close", "f", unix.O_RDONLY)
	p.held("f", 0, 10)
}

func recordLockWait(p *probe) {
	p.file("f", "")
	fd := p.fd("f", unix.O_RDWR)
	p.own(fd, "lock", unix.F_WRLCK, 0, 0)
	asked, got := make(chan bool), make(chan error, 1)
	go p.apart(p.split, func() {
		close(asked)
		_, err := record(fd, unix.F_SETLKW, unix.F_WRLCK, 3, 4)
		for err == unix.EINTR {
			_, err = record(fd, unix.F_SETLKW, unix.F_WRLCK, 3, 4)
		}
		p.forget()
		got <- err
	})
	<-asked
	select {
	case err := <-got:
		p.result("did not wait", err)
	default:
	}
	p.own(fd, "unlock", unix.F_UNLCK, 0, 0)
	p.result("waited", <-got)
}

func recordLockWrong(p *probe) {
	p.file("f", "")
	r, w := p.fd("f", unix.O_RDONLY), p.fd("f", unix.O_WRONLY)
	p.own(r, "write lock of a reader", unix.F_WRLCK, 0, 0)
	p.own(w, "read lock of a writer", unix.F_RDLCK, 0, 0)
	p.own(w, "below zero", unix.F_WRLCK, -1, 0)
	p.own(w, "backwards", unix.F_WRLCK, 10, -5)
	p.held("f", 5, 5)
	p.held("f", 4, 1)
}

func recordLockRenamed(p *probe) {
	p.file("f", "")
	p.own(p.fd("f", unix.O_RDWR), "lock", unix.F_WRLCK, 0, 0)
	p.need(unix.Rename(p.at("f"), p.at("g")))
	p.held("g", 0, 0)
	p.file("f", "")
	p.held("f", 0, 0)
}

func openFileLock(p *probe) {
	p.file("f", "")
	a, b := p.fd("f", unix.O_RDWR), p.fd("f", unix.O_RDWR)
	set := func(what string, fd int, kind int16, from, n int64) {
		_, err := record(fd, unix.F_OFD_SETLK, kind, from, n)
		p.result(what, err)
	}
	set("one", a, unix.F_WRLCK, 0, 10)
	set("two", b, unix.F_WRLCK, 5, 10)
	set("two, behind", b, unix.F_WRLCK, 10, 10)
	set("unlock", a, unix.F_UNLCK, 0, 0)
	set("two", b, unix.F_WRLCK, 5, 10)
}
