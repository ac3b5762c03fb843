package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfsserver"
	"github.com/nfsrdma/nfsrdma/nfsserver/exportset"
	"github.com/nfsrdma/nfsrdma/vfs"
)

// A directory on which autofs mounts a file system when a process uses it is an export, like the file
// system once it is mounted. Calls that use it start the automount, and get Later until mountwatch.go
// reports the file system. As on the host itself, looking at the directory (LOOKUP, GETATTR and listing
// the directory above) does not use it.

// Limits of automounts.
const (
	maxTriggers    = 32  // automounts that are triggered at once, without those that do not respond
	maxHungMounts  = 500 // automounts that do not respond, after which no other one is triggered: each blocks a thread
	minTriggerWait = time.Second
	maxTriggerWait = time.Minute
	triggerTimeout = 10 * time.Second // after which an automount that does not respond is logged, and others are triggered
)

// An automount is the state of an automount below an export. Its fields are guarded by shareSet.mu.
type automount struct {
	name, dir string
	shown     *exportset.Automount // nil: not exported since the root's attributes have changed
	root      vfs.MaybeAttr        // of the file system that was mounted last
	point     vfs.MaybeAttr        // of the mount point, with the fileid of the directory that it covers
	isPlaced  bool                 // point has been read

	isTriggered bool          // its goroutine runs
	wait        time.Duration // from a failure until the next attempt
	notBefore   time.Time     // when the next attempt may begin
	logged      time.Time     // when a failure was last logged
}

// rootID returns the ID of the root directory in file handles, if an automount is there, or 0. It does
// not depend on the file system: clients keep the handle of the mount point.
func (e *exportSpec) rootID() uint32 {
	if !e.isAutomount && !e.isTriggered {
		return 0
	}
	return max(1, hash32([]byte("automount:"+e.name)))
}

// newAutomountExportLocked returns e, whose file system is not mounted, as an export.
func (s *shareSet) newAutomountExportLocked(e *exportSpec, lastIDs map[string]uint32) nfsserver.Export {
	a := s.automountLocked(e)
	if a.shown == nil {
		a.shown = &exportset.Automount{Attr: a.root, Trigger: func() { s.trigger(a) }}
		if _, wasMounted := lastIDs[recordedPath(e.name)]; !a.root.OK && !wasMounted {
			a.shown.Attr = a.point
		}
	}
	return nfsserver.Export{
		Path: e.name, Clients: e.clients, ID: e.lastID(lastIDs), RootID: e.rootID(),
		FS: exportset.Unavailable{Automount: a.shown}, Submount: true, MountedOn: a.point.FileID,
	}
}

// placeAutomountsLocked reads the attributes of the mount points in list that are not known yet, without
// holding mu. It waits at most openTimeout for the storage of the directories above them.
func (s *shareSet) placeAutomountsLocked(list []exportSpec) {
	var unknown []*automount
	for i := range list {
		if e := &list[i]; e.isAutomount && !s.automountLocked(e).isPlaced {
			unknown = append(unknown, s.automountLocked(e))
		}
	}
	if len(unknown) == 0 || s.isPlacing {
		return
	}
	s.isPlacing = true
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, a := range unknown {
			point := statAutomount(a.name, a.dir)
			s.mu.Lock()
			a.point, a.isPlaced, a.shown = point, true, nil
			s.mu.Unlock()
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.isPlacing = false
	}()
	s.mu.Unlock()
	select {
	case <-done:
	case <-time.After(openTimeout):
	}
	s.mu.Lock()
}

func (s *shareSet) automountLocked(e *exportSpec) *automount {
	a := s.automounts[e.name]
	if a == nil || a.dir != e.dir {
		a = &automount{name: e.name, dir: e.dir}
		s.automounts[e.name] = a
	}
	return a
}

// showRootLocked records the attributes of a file system's root that the automount e has mounted: its
// clients see them while it is not mounted. With others, they would take the root for another object.
func (s *shareSet) showRootLocked(e *exportSpec, root vfs.MaybeAttr) {
	if a := s.automountLocked(e); a.root != root {
		a.root, a.shown = root, nil
	}
}

// listAutomountNames returns the names of the automounts in list, as the record of identities has them.
func listAutomountNames(list []exportSpec) map[string]bool {
	names := make(map[string]bool)
	for _, e := range list {
		if e.isAutomount || e.isTriggered {
			names[recordedPath(e.name)] = true
		}
	}
	return names
}

// dropAutomountsLocked forgets the automounts that are no submounts any more.
func (s *shareSet) dropAutomountsLocked() {
	isThere := listAutomountNames(s.submounts)
	for name := range s.automounts {
		if !isThere[recordedPath(name)] {
			delete(s.automounts, name)
		}
	}
}

// fetchRootAttr returns the attributes of a file system's root.
func fetchRootAttr(fs vfs.FS) (root vfs.MaybeAttr) {
	attr, err := fs.GetAttr(context.Background(), new(vfs.Cred), fs.Root())
	return vfs.MaybeAttr{OK: err == nil, Attr: attr}
}

// statAutomount returns the attributes of the mount point of an export. Reading them does not trigger it.
func statAutomount(name, dir string) (point vfs.MaybeAttr) {
	var st unix.Stat_t
	if unix.Fstatat(unix.AT_FDCWD, dir, &st, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT) != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return point
	}
	h := fnv.New64a()
	h.Write([]byte("automount:" + name)) // never fails
	at := func(t unix.Timespec) vfs.Time { return vfs.Time{Sec: t.Sec, Nsec: uint32(t.Nsec)} }
	return vfs.MaybeAttr{OK: true, Attr: vfs.Attr{
		Type: vfs.TypeDir, Mode: st.Mode & 0o7777, Nlink: uint32(st.Nlink), UID: st.Uid, GID: st.Gid, Size: uint64(st.Size),
		FSID: h.Sum64(), FileID: coveredFileID(dir), Atime: at(st.Atim), Mtime: at(st.Mtim), Ctime: at(st.Ctim),
	}}
}

// trigger starts to mount an automount's file system, unless it is being mounted, has just failed, or
// too many others are being mounted. The client's next attempt then starts it.
func (s *shareSet) trigger(a *automount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.isTriggered || s.closing || s.automounts[a.name] != a || s.triggering == maxTriggers || s.hung >= maxHungMounts || time.Now().Before(a.notBefore) {
		return
	}
	a.isTriggered = true
	s.triggering++
	go func() {
		counts := true // in triggering; guarded by mu
		slow := time.AfterFunc(triggerTimeout, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if counts {
				counts = false
				s.triggering--
				s.hung++
				s.logTriggerLocked(a, fmt.Errorf("it has not responded for %v", triggerTimeout))
			}
		})
		err := s.triggerAutomount(a.dir)
		slow.Stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		if counts {
			counts = false
			s.triggering--
		} else {
			s.hung--
		}
		s.endTriggerLocked(a, err)
	}()
}

func (s *shareSet) endTriggerLocked(a *automount, err error) {
	a.isTriggered = false
	if err == nil { // until the mount is exported, the calls of its clients need no second attempt
		a.wait, a.notBefore = 0, time.Now().Add(minTriggerWait)
		return
	}
	a.wait = min(max(minTriggerWait, 2*a.wait), maxTriggerWait)
	a.notBefore = time.Now().Add(a.wait)
	s.logTriggerLocked(a, err)
}

// logTriggerLocked logs a failure, unless one was logged within a minute.
func (s *shareSet) logTriggerLocked(a *automount, err error) {
	if now := time.Now(); a.logged.IsZero() || now.Sub(a.logged) >= time.Minute {
		a.logged = now
		s.log.Error("cannot mount an automount below an export: its clients wait until it is mounted; check the unit or the map, and the source", "export", a.name, "err", err)
	}
}

// triggerAutomount has a directory's automount mounted, and waits for it. It opens nothing in the file
// system.
func triggerAutomount(dir string) error {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &how)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err == nil && fs.Type == unix.AUTOFS_SUPER_MAGIC {
		return errors.New("nothing was mounted")
	}
	return nil
}
