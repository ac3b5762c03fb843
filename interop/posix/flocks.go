package posix

import "golang.org/x/sys/unix"

var flockCases = []Case{
	{"flock", anyone, testFlock},
	{"flock-shared", anyone, flockShared},
	{"flock-upgrade", anyone, flockUpgrade},
	{"flock-duplicated", anyone, flockDuplicated},
	{"flock-wait", anyone, flockWait},
	{"flock-reader", anyone, flockReader},
	{"flock-and-record", anyone, flockAndRecord},
}

const (
	lockNow  = unix.LOCK_EX | unix.LOCK_NB
	shareNow = unix.LOCK_SH | unix.LOCK_NB
)

func testFlock(p *probe) {
	p.makeFile("f", "")
	a, b := p.openFD("f", unix.O_RDWR), p.openFD("f", unix.O_RDWR)
	p.sayError("one", unix.Flock(a, lockNow))
	p.sayError("two", unix.Flock(b, lockNow))
	p.sayError("two, shared", unix.Flock(b, shareNow))
	p.sayError("one again", unix.Flock(a, lockNow))
	p.sayError("unlock", unix.Flock(a, unix.LOCK_UN))
	p.sayError("two", unix.Flock(b, lockNow))
	p.sayError("unlock what is not locked", unix.Flock(a, unix.LOCK_UN))
}

func flockShared(p *probe) {
	p.makeFile("f", "")
	a, b := p.openFD("f", unix.O_RDWR), p.openFD("f", unix.O_RDWR)
	c := p.openFD("f", unix.O_RDWR)
	p.sayError("one", unix.Flock(a, shareNow))
	p.sayError("two", unix.Flock(b, shareNow))
	p.sayError("exclusive", unix.Flock(c, lockNow))
	p.mustSucceed(unix.Flock(a, unix.LOCK_UN))
	p.sayError("exclusive", unix.Flock(c, lockNow))
	p.mustSucceed(unix.Flock(b, unix.LOCK_UN))
	p.sayError("exclusive", unix.Flock(c, lockNow))
}

func flockUpgrade(p *probe) {
	p.makeFile("f", "")
	a, b := p.openFD("f", unix.O_RDWR), p.openFD("f", unix.O_RDWR)
	p.mustSucceed(unix.Flock(a, shareNow))
	p.sayError("upgrade", unix.Flock(a, lockNow))
	p.sayError("other", unix.Flock(b, shareNow))
	p.sayError("downgrade", unix.Flock(a, shareNow))
	p.sayError("other", unix.Flock(b, shareNow))
}

// A duplicate shares the lock; the last close releases it.
func flockDuplicated(p *probe) {
	p.makeFile("f", "")
	a, err := unix.Open(p.pathOf("f"), unix.O_RDWR|unix.O_CLOEXEC, 0)
	p.mustSucceed(err)
	b := p.openFD("f", unix.O_RDWR)
	dup, err := unix.FcntlInt(uintptr(a), unix.F_DUPFD_CLOEXEC, 0)
	p.mustSucceed(err)
	p.mustSucceed(unix.Flock(a, lockNow))
	p.sayError("by the duplicate", unix.Flock(dup, lockNow))
	p.mustSucceed(unix.Close(a))
	p.sayError("one closed", unix.Flock(b, lockNow))
	p.mustSucceed(unix.Close(dup))
	p.sayError("both closed", unix.Flock(b, lockNow))
}

func flockWait(p *probe) {
	p.makeFile("f", "")
	a, b := p.openFD("f", unix.O_RDWR), p.openFD("f", unix.O_RDWR)
	p.mustSucceed(unix.Flock(a, lockNow))
	got := make(chan error, 1)
	go func() { got <- retryInterrupted(func() error { return unix.Flock(b, unix.LOCK_EX) }) }()
	select {
	case err := <-got:
		p.sayError("did not wait", err)
	default:
	}
	p.mustSucceed(unix.Flock(a, unix.LOCK_UN))
	p.sayError("waited", <-got)
}

// retryInterrupted repeats f after interruptions by signals, which the runtime sends.
func retryInterrupted(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

func flockReader(p *probe) {
	p.makeFile("f", "")
	p.sayError("exclusive, of a reader", unix.Flock(p.openFD("f", unix.O_RDONLY), lockNow))
	p.makeDir("d")
	p.sayError("of a directory", unix.Flock(p.openFD("d", unix.O_RDONLY), lockNow))
	p.sayError("and another", unix.Flock(p.openFD("d", unix.O_RDONLY), lockNow))
}

func flockAndRecord(p *probe) {
	p.makeFile("f", "")
	p.mustSucceed(unix.Flock(p.openFD("f", unix.O_RDWR), lockNow))
	p.runAsProcess(func() { p.sayError("record lock", p.lockFile("f", unix.F_WRLCK, 0, 0)) })
}
