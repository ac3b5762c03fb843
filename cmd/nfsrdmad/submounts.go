package main

import (
	"errors"
	"fmt"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/vfs"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// A file system that is mounted below the directory of an export with crossmnt is an export itself:
// with the other's clients, but with its own shareKey, which has the mount's ID.

// maxSubmounts bounds the submounts of all exports: each has some descriptors and goroutines.
const maxSubmounts = 256

// A placement says where a directory lies in the host's mounts.
type placement struct {
	real    string        // the path without symbolic links; "" if unknown
	covered uint64        // fileid of the directory that a submount's root covers; 0 if unknown
	root    vfs.MaybeAttr // of a submount that an automount has mounted

	isBtrfs    bool // and no subvolume: a subvolume's are among those of the directory above
	subvolumes []subvolume
}

// findPlacement finds the placement of an export's directory, as long as its storage takes to
// respond.
func findPlacement(e *exportSpec) (at placement) {
	switch {
	case e.memory > 0, e.subvolID != 0:
		return at
	case e.mountID != 0:
		at.real, at.covered = e.dir, coveredFileID(e.dir)
	default:
		at.real, _, _ = resolveDir(e.dir)
	}
	at.isBtrfs, at.subvolumes = listSubvolumes(at.real)
	return at
}

// isSubmount reports whether e is a submount or a subvolume of an export.
func (e *exportSpec) isSubmount() bool { return e.mountID != 0 || e.subvolID != 0 }

// coveredFileID returns the inode number of the directory on which a file system is mounted, which a
// copy of the mount below shows, or 0.
func coveredFileID(point string) uint64 {
	tree, err := unix.OpenTree(unix.AT_FDCWD, filepath.Dir(point), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return 0
	}
	defer unix.Close(tree)
	var st unix.Stat_t
	if unix.Fstatat(tree, filepath.Base(point), &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	return st.Ino
}

func (e *exportSpec) crossesMounts() bool {
	return e.anyClient(func(o *exports.Options) bool { return o.CrossMnt })
}

// findMountsLocked returns the mounts below each of the exports in list.
func (s *shareSet) findMountsLocked(list []exportSpec) [][]mountinfo.Mount {
	all, err := s.listMounts()
	if err != nil {
		return make([][]mountinfo.Mount, len(list))
	}
	dirs := make([]string, len(list))
	for i := range list {
		dirs[i] = s.realDirLocked(&list[i])
	}
	below := mountinfo.Below(all, dirs)
	for i := range below {
		below[i] = slices.DeleteFunc(below[i], func(m mountinfo.Mount) bool { return !m.HasFiles() })
	}
	return below
}

// realDirLocked returns the path of an export's directory without symbolic links, if it is known,
// or "".
func (s *shareSet) realDirLocked(e *exportSpec) string {
	if sh := s.open[e.shareKey()]; sh != nil {
		return sh.at.real
	}
	if e.memory > 0 {
		return ""
	}
	return filepath.Clean(e.dir)
}

// findSubmountsLocked returns the exports for the submounts of those in list, and the mounts that are
// left out.
func (s *shareSet) findSubmountsLocked(list []exportSpec) (submounts []exportSpec, left []string) {
	if !slices.ContainsFunc(list, func(e exportSpec) bool { return e.crossesMounts() }) {
		return nil, nil
	}
	isTaken := make(map[string]bool)
	for _, e := range list {
		isTaken[e.name] = true
	}
	for i, mounts := range s.findMountsLocked(list) {
		e := &list[i]
		if !e.crossesMounts() || e.broken {
			continue
		}
		clients := submountClients(e.clients)
		for _, m := range mounts {
			name := path.Join(e.name, strings.TrimPrefix(m.Point, s.realDirLocked(e)))
			if isTaken[name] || len(name) > mount3.PathLen {
				left = append(left, m.Point)
				continue
			}
			isTaken[name] = true
			submounts = append(submounts, exportSpec{dir: m.Point, name: name, clients: clients, position: e.position, fault: e.fault, mountID: m.ID, isAutomount: m.IsAutomount, isTriggered: m.IsTriggered})
		}
	}
	submounts, more := s.limitSubmountsLocked(submounts)
	return submounts, append(left, more...)
}

// limitSubmountsLocked returns at most maxSubmounts of those found, and the directories of the others.
// Those that are exported already come first, so that a user of the host who mounts many file systems
// takes none from clients.
func (s *shareSet) limitSubmountsLocked(found []exportSpec) (kept []exportSpec, left []string) {
	if len(found) <= maxSubmounts {
		return found, nil
	}
	rank := make(map[string]int) // by name: an automount has another shareKey once it is mounted
	for _, e := range s.submounts {
		rank[e.name] = -1
	}
	slices.SortStableFunc(found, func(a, b exportSpec) int { return rank[a.name] - rank[b.name] })
	for _, e := range found[maxSubmounts:] {
		left = append(left, e.dir)
	}
	kept = found[:maxSubmounts]
	slices.SortFunc(kept, func(a, b exportSpec) int { return strings.Compare(a.name, b.name) })
	return kept, left
}

// submountClients returns an export's clients for its submounts: the options for the export itself
// are not theirs.
func submountClients(clients []exports.Client) []exports.Client {
	clients = slices.Clone(clients)
	for i := range clients {
		o := &clients[i].Options
		o.FSID, o.NoHide, o.Replicas = exports.FSID{}, false, exports.Locations{}
	}
	return clients
}

// haveSubmountsChanged reports whether the submounts and subvolumes differ from those that are exported.
func (s *shareSet) haveSubmountsChanged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	submounts, _ := s.findSubmountsLocked(s.list)
	subvolumes, _ := s.findSubvolumesLocked(slices.Concat(s.list, submounts))
	submounts = append(submounts, subvolumes...)
	return !slices.EqualFunc(submounts, s.submounts, func(a, b exportSpec) bool { return a.shareKey() == b.shareKey() })
}

// logHiddenMounts logs the mounts below exports without crossmnt that have appeared since the exports
// file was read.
func (s *shareSet) logHiddenMounts(log *slog.Logger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	hidden := make(map[string]string)
	for i, mounts := range s.findMountsLocked(s.list) {
		if e := &s.list[i]; len(mounts) > 0 && !e.crossesMounts() {
			hidden[e.name] = mountinfo.Summary(mounts)
		}
	}
	for name, mounts := range hidden {
		if before, known := s.hidden[name]; s.hidden != nil && (!known || before != mounts) {
			log.Warn("clients see empty directories in place of mounts: add crossmnt to the export, or export each on its own line", "export", name, "mounts", mounts)
		}
	}
	s.hidden = hidden
}

// lastsAsMount reports whether an error from opening a submount will not change before the mount does:
// for instance, only its user can read a FUSE file system, or a file is mounted on a file. As with
// knfsd, clients then see what is beneath.
func lastsAsMount(err error) bool {
	return slices.ContainsFunc([]error{unix.EACCES, unix.ENOTDIR, unix.ENAMETOOLONG, errReachable}, func(e error) bool { return errors.Is(err, e) })
}

// logLeftLocked logs the submounts and subvolumes that are not exported, if they have changed.
func (s *shareSet) logLeftLocked(left []string) {
	if len(left) > 0 && !slices.Equal(left, s.left) {
		s.log.Warn("not exporting mounts or Btrfs subvolumes below exports: there are too many, they cannot be opened, or their names are too long or taken; export those that you need on their own lines", "left", len(left), "first", left[0])
	}
	s.left = left
}

// openSubmount is posix.Open for a submount's directory.
func (e *exportSpec) openSubmount(dir string, o posix.Options) (*posix.FS, error) {
	fd, err := openMountPoint(dir, e.mountID)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	o.FSIDSeed = e.name
	return posix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), o)
}

// openMountPoint opens the root of the topmost mount on a directory, if the mount has an ID: another
// process may have renamed the directories on the way since the list of mounts was read, or put
// symbolic links in their place. It does not trigger an automount that has expired since: O_DIRECTORY
// would.
func openMountPoint(point string, id uint64) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, point, &how)
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", point, err)
	}
	var st unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_TYPE|unix.STATX_MNT_ID, &st)
	switch {
	case err != nil:
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		err = unix.ENOTDIR
	case st.Mnt_id != id || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0:
		err = errors.New("another file system is mounted there now")
	}
	if err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mount %s: %w", point, err)
	}
	return fd, nil
}
