package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A check lets host 1 do something, of which host 2 judges what it sees.
type check struct {
	name string
	one  func(r *run) error
	two  func(r *run) (Finding, error)
}

var checks = []check{
	{"flock", lockOne(flock), lockTwo(flock)},
	{"fcntl", lockOne(fcntl), lockTwo(fcntl)},
	{"inodes", inodesOne, inodesTwo},
	{"handles", handlesOne, handlesTwo},
	{"cookies", cookiesOne, cookiesTwo},
	{"data", dataOne, dataTwo},
	{"rename", renameOne, renameTwo},
	{"unlink", unlinkOne, unlinkTwo},
	{"direct I/O", nothingOne, directTwo},
	{"clocks", nothingOne, clocksTwo},
}

// A verdict is what host 2 tells host 1 at the end of a check.
type verdict struct {
	Finding
	Err string `json:",omitempty"`
}

// check executes a check. An error on one host ends the probe on both.
func (r *run) check(c check) (f Finding, err error) {
	if r.first {
		if err := c.one(r); err != nil {
			return f, errors.Join(err, r.tell(message{Err: err.Error()}))
		}
		var v verdict
		if err = r.hear(r.ctx, &v, peerLimit); err == nil && v.Err != "" {
			err = fmt.Errorf("on host %s: %s", r.peer.Host, v.Err)
		}
		return v.Finding, err
	}
	f, err = c.two(r)
	f.Check = c.name
	v := verdict{Finding: f}
	if err != nil {
		v.Err = err.Error()
	}
	return f, errors.Join(err, r.tell(v))
}

// hearMessage receives a message of a check.
func (r *run) hearMessage() (m message, err error) {
	if err = r.hear(r.ctx, &m, peerLimit); err == nil && m.Err != "" {
		err = fmt.Errorf("on host %s: %s", r.peer.Host, m.Err)
	}
	return m, err
}

func (r *run) create(name string, content string) (*os.File, error) {
	f, err := os.OpenFile(r.path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err = f.WriteString(content); err == nil {
		err = f.Sync()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (r *run) open(name string, flags int) (*os.File, error) {
	return os.OpenFile(r.path(name), flags|unix.O_NOFOLLOW, 0)
}

// A lockKind is a way to lock a file, without waiting.
type lockKind struct {
	name string
	lock func(f *os.File) error
}

var (
	flock = lockKind{"flock", func(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }}
	fcntl = lockKind{"fcntl", func(f *os.File) error {
		return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: 10, Len: 10})
	}}
)

func lockOne(k lockKind) func(r *run) error {
	return func(r *run) error {
		f, err := r.create(k.name, "lock")
		if err != nil {
			return err
		}
		defer f.Close()
		if err := k.lock(f); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		if err := r.exchange(); err != nil {
			return err
		}
		f.Close()
		return r.tell(message{})
	}
}

// exchange tells host 2 that it can go on, and waits until it has done so.
func (r *run) exchange() error {
	if err := r.tell(message{}); err != nil {
		return err
	}
	_, err := r.hearMessage()
	return err
}

func lockTwo(k lockKind) func(r *run) (Finding, error) {
	return func(r *run) (Finding, error) {
		if _, err := r.hearMessage(); err != nil {
			return Finding{}, err
		}
		f, err := r.open(k.name, os.O_RDWR)
		if err != nil {
			return Finding{}, err
		}
		defer f.Close()
		held := k.lock(f)
		if err := r.tell(message{}); err != nil {
			return Finding{}, err
		}
		if _, err := r.hearMessage(); err != nil {
			return Finding{}, err
		}
		if !errors.Is(held, unix.EAGAIN) && !errors.Is(held, unix.EACCES) {
			return Finding{Level: levelFail, Found: "locks are not seen from the other host", Then: "mount with cluster-wide locks if the file system has them; otherwise both hosts would serve"}, nil
		}
		took, err := r.waitFor(10*time.Second, func() bool { return k.lock(f) == nil })
		if err != nil {
			return Finding{}, err
		}
		if took < 0 {
			return Finding{Level: levelFail, Found: "a lock stays after its file is closed", Then: "a planned change would not end"}, nil
		}
		return Finding{Level: levelOK, Found: fmt.Sprintf("seen from the other host, and free %.1f s after close", took.Seconds())}, nil
	}
}

// waitFor polls a condition, and returns the time until it holds, or -1 after limit.
func (r *run) waitFor(limit time.Duration, holds func() bool) (time.Duration, error) {
	for start := time.Now(); time.Since(start) < limit; {
		if holds() {
			return time.Since(start), nil
		}
		r.silence() // notes that the other is alive
		if err := sleep(r.ctx, pollPeriod); err != nil {
			return 0, err
		}
	}
	return -1, nil
}

// identify returns a file's numbers, and its birth time if there is one.
func (r *run) identify(name string) (numbers []uint64, err error) {
	var st unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, r.path(name), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	birth := uint64(0)
	if st.Mask&unix.STATX_BTIME != 0 {
		birth = uint64(st.Btime.Sec)*1e9 + uint64(st.Btime.Nsec)
	}
	return []uint64{st.Ino, birth, unix.Mkdev(st.Dev_major, st.Dev_minor)}, err
}

func inodesOne(r *run) error {
	f, err := r.create("inode", "x")
	if err != nil {
		return err
	}
	defer f.Close()
	numbers, err := r.identify("inode")
	if err != nil {
		return err
	}
	return r.tell(message{Numbers: numbers})
}

func inodesTwo(r *run) (Finding, error) {
	m, err := r.hearMessage()
	if err != nil {
		return Finding{}, err
	}
	own, err := r.identify("inode")
	if err != nil {
		return Finding{}, err
	}
	if len(m.Numbers) != len(own) || m.Numbers[0] != own[0] {
		return Finding{Level: levelFail, Found: "a file has different inode numbers", Then: "clients would take it for another file after a change of hosts"}, nil
	}
	birth := "birth times"
	then := "give each export fsid=, because device numbers may differ"
	if own[1] == 0 || own[1] != m.Numbers[1] {
		birth = "no birth times"
		then += "; do not rename files in exported directories on the hosts themselves"
	}
	device := "equal device numbers"
	if own[2] != m.Numbers[2] {
		device = "different device numbers"
	}
	return Finding{Level: levelNote, Found: "equal inode numbers, " + device + ", " + birth, Then: then}, nil
}

func handlesOne(r *run) error {
	f, err := r.create("handle", "x")
	if err != nil {
		return err
	}
	f.Close()
	h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, r.path("handle"), 0)
	if err != nil {
		return r.tell(message{Word: "none"})
	}
	return r.tell(message{Number: int64(h.Type()), Bytes: h.Bytes()})
}

func handlesTwo(r *run) (Finding, error) {
	m, err := r.hearMessage()
	if err != nil {
		return Finding{}, err
	}
	table := Finding{Level: levelOK, Found: "the kernel's are not the same on both hosts", Then: "nfsrdmad uses its handle table in the state directory"}
	if m.Word != "" {
		return table, nil
	}
	if h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, r.path("handle"), 0); err != nil || h.Type() != int32(m.Number) || !bytes.Equal(h.Bytes(), m.Bytes) {
		return table, nil
	}
	dir, err := os.Open(r.work)
	if err != nil {
		return Finding{}, err
	}
	defer dir.Close()
	fd, err := unix.OpenByHandleAt(int(dir.Fd()), unix.NewFileHandle(int32(m.Number), m.Bytes), unix.O_RDONLY)
	if err != nil {
		return table, nil
	}
	unix.Close(fd)
	if r.mount.Kind == "fuse" || len(r.mount.Kind) > 5 && r.mount.Kind[:5] == "fuse." {
		return Finding{Level: levelOK, Found: "FUSE opens the kernel's only while they are cached", Then: table.Then}, nil
	}
	return Finding{Level: levelOK, Found: "the kernel's are equal, and open the file on both hosts"}, nil
}
