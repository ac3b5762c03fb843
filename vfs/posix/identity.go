//go:build linux

package posix

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/vfs"
)

// A process is the daemon's own identity.
type process struct {
	switches bool // operations run as their callers, because the daemon is root
	gid      uint32
	groups   []uint32
}

// thisProcess determines the daemon's identity. A root that cannot become other users, or would
// keep its capabilities as another user, must not serve clients.
func thisProcess() (process, error) {
	p := process{gid: uint32(unix.Getegid())}
	if unix.Geteuid() != 0 {
		return p, nil
	}
	groups, err := unix.Getgroups()
	if err != nil {
		return p, fmt.Errorf("reading supplementary groups: %w", err)
	}
	for _, g := range groups {
		p.groups = append(p.groups, uint32(g))
	}
	p.switches = true
	const other = 1 // any user except root: daemon, everywhere
	if err := p.runAs(&vfs.Cred{UID: other, GID: other, Groups: []uint32{other}}, noCapabilities); err != nil {
		return p, fmt.Errorf("root cannot act as other users without CAP_SETUID, CAP_SETGID and plain securebits; grant them, or run as an ordinary user: %w", err)
	}
	return p, nil
}

// noCapabilities returns an error if the thread has any capabilities.
func noCapabilities() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return err
	}
	if data[0].Effective|data[1].Effective != 0 {
		return errors.New("the thread keeps capabilities")
	}
	return nil
}

// An identitySwitch is another identity that the thread has taken, and must
// leave.
type identitySwitch struct {
	p                *process
	uid, gid, groups bool
	locked           bool
}

// switchTo switches only the calling thread to c's identity, and locks the goroutine to the thread.
// It changes the effective ids rather than the fsuid, for two reasons: the kernel reports failures,
// and it drops all capabilities, including CAP_SYS_RESOURCE, which would bypass quotas and reserved
// blocks.
func (p *process) switchTo(c *vfs.Cred) (identitySwitch, error) {
	w := identitySwitch{p: p}
	if !p.switches || (c.UID == 0 && c.GID == p.gid) {
		return w, nil
	}
	if c.UID == noID || c.GID == noID {
		return w, unix.EACCES
	}
	w.lockThread()
	// With root's capabilities, groups have no effect; the gid is for new
	// objects.
	if c.UID != 0 && !slices.Equal(c.Groups, p.groups) {
		if e := setGroups(c.Groups); e != 0 {
			return w.undoSwitch(e)
		}
		w.groups = true
	}
	if c.GID != p.gid {
		if e := setEGID(c.GID); e != 0 {
			return w.undoSwitch(e)
		}
		w.gid = true
	}
	return w.switchUID(c.UID)
}

// switchUID changes only the effective uid. This drops the capabilities, is
// cheaper by two thirds, and is enough if no permission is checked.
func (p *process) switchUID(uid uint32) (identitySwitch, error) {
	w := identitySwitch{p: p}
	if !p.switches || uid == 0 {
		return w, nil
	}
	if uid == noID {
		return w, unix.EACCES
	}
	w.lockThread()
	return w.switchUID(uid)
}

func (w identitySwitch) switchUID(uid uint32) (identitySwitch, error) {
	if uid == 0 {
		return w, nil
	}
	if e := setEUID(uid); e != 0 {
		return w.undoSwitch(e)
	}
	w.uid = true
	return w, nil
}

func (w *identitySwitch) lockThread() {
	runtime.LockOSThread()
	w.locked = true
}

// undoSwitch leaves a partly taken identity. EINVAL means an id that this user
// namespace does not have; no object here would permit such a user anything.
func (w identitySwitch) undoSwitch(e unix.Errno) (identitySwitch, error) {
	w.restore()
	if e == unix.EINVAL {
		e = unix.EACCES
	}
	return identitySwitch{}, e
}

// restore restores the thread's own identity. That cannot fail; if it still does, the thread must
// not continue.
func (w identitySwitch) restore() {
	if !w.locked {
		return
	}
	var e unix.Errno
	if w.uid {
		e = setEUID(0)
	}
	if w.gid {
		e |= setEGID(w.p.gid)
	}
	if w.groups {
		e |= setGroups(w.p.groups)
	}
	if e != 0 {
		panic("vfs/posix: a thread cannot get its identity back")
	}
	runtime.UnlockOSThread()
}

// runAs runs fn as c. fn must do nothing but system calls.
func (p *process) runAs(c *vfs.Cred, fn func() error) error {
	w, err := p.switchTo(c)
	if err != nil {
		return err
	}
	defer w.restore()
	return fn()
}

// Package syscall's functions change all threads.

const (
	noID        = ^uint32(0) // "keep the id" to the kernel: a caller with this id would stay root
	unchangedID = ^uintptr(0)
)

func setEUID(uid uint32) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, unchangedID, uintptr(uid), unchangedID)
	return e
}

func setEGID(gid uint32) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_SETRESGID, unchangedID, uintptr(gid), unchangedID)
	return e
}

func setGroups(g []uint32) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(g)), uintptr(unsafe.Pointer(unsafe.SliceData(g))), 0)
	return e
}

// A credKey is the part of a caller's credentials that affects permissions.
type credKey struct {
	uid, gid uint32
	groups   []uint32
}

// credKeyOf returns the credKey of c; its groups alias c's.
func (p *process) credKeyOf(c *vfs.Cred) credKey {
	if !p.switches || c.UID == 0 {
		return credKey{}
	}
	return credKey{c.UID, c.GID, c.Groups}
}

func (w *credKey) equals(v *credKey) bool {
	return w.uid == v.uid && w.gid == v.gid && slices.Equal(w.groups, v.groups)
}
