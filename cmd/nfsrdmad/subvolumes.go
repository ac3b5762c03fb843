package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/nfs/mount3"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
	"github.com/nfsrdma/nfsrdma/vfs/posix"
)

// A Btrfs subvolume below an export's directory belongs to the export, with or without crossmnt. Its
// inode numbers are those of other subvolumes too, so it is an export itself, like a submount.

// A subvolume is a Btrfs subvolume below an export's directory.
type subvolume struct {
	path string // below the directory
	id   uint64 // never used for another subvolume of the file system
}

// Requests of ioctl(2) on Btrfs directories (linux/btrfs.h): all have an argument of 4096 bytes.
const (
	btrfsInoLookup     = 0xd0009412 // subvolume ID of the directory
	btrfsSubvolRootRef = 0xd000943d // subvolumes in the directory's subvolume
	btrfsInoLookupUser = 0xd000943e // path of such a subvolume from the directory
)

// btrfsArgs is the argument of these requests.
type btrfsArgs [4096]byte

func (a *btrfsArgs) word(at int) uint64       { return binary.NativeEndian.Uint64(a[at:]) }
func (a *btrfsArgs) setWord(at int, v uint64) { binary.NativeEndian.PutUint64(a[at:], v) }

func (a *btrfsArgs) ioctl(fd int, request uintptr) error {
	_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(a)))
	if e != 0 {
		return e
	}
	return nil
}

// text returns the string at an offset, which ends with a NUL.
func (a *btrfsArgs) text(at int) string {
	b, _, _ := bytes.Cut(a[at:], []byte{0})
	return string(b)
}

// listSubvolumes returns the subvolumes below a directory, but not those below other mounts, if the
// directory is on Btrfs.
func listSubvolumes(dir string) (isBtrfs bool, list []subvolume) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, nil
	}
	defer unix.Close(fd)
	var fs unix.Statfs_t
	if unix.Fstatfs(fd, &fs) != nil || uint32(fs.Type) != unix.BTRFS_SUPER_MAGIC {
		return false, nil
	}
	return true, appendSubvolumes(nil, fd, "")
}

// appendSubvolumes appends the subvolumes below the directory fd, whose path is given, to list, which
// has at most maxSubmounts+1.
func appendSubvolumes(list []subvolume, fd int, at string) []subvolume {
	var refs btrfsArgs
	for {
		err := refs.ioctl(fd, btrfsSubvolRootRef)
		if err != nil && err != unix.EOVERFLOW { // EOVERFLOW: there are more
			return list
		}
		for i := range int(refs[8+255*16]) {
			if len(list) > maxSubmounts {
				return list
			}
			list = appendSubvolume(list, fd, at, refs.word(8+16*i), refs.word(16+16*i))
		}
		if err == nil {
			return list
		}
	}
}

// appendSubvolume appends a subvolume in the directory with inode number dirID, and those below it,
// if they are below the directory fd.
func appendSubvolume(list []subvolume, fd int, at string, id, dirID uint64) []subvolume {
	var name btrfsArgs
	name.setWord(0, dirID)
	name.setWord(8, id)
	if name.ioctl(fd, btrfsInoLookupUser) != nil {
		return list
	}
	rel := path.Join(name.text(16+256), name.text(16))
	sub, err := openBeneath(fd, rel, unix.RESOLVE_NO_XDEV)
	if err != nil {
		return list
	}
	defer unix.Close(sub)
	if got, err := subvolumeID(sub); err != nil || got != id {
		return list
	}
	at = path.Join(at, rel)
	return appendSubvolumes(append(list, subvolume{at, id}), sub, at)
}

func openBeneath(dir int, rel string, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | resolve}
	return unix.Openat2(dir, rel, &how)
}

// subvolumeID returns the ID of the subvolume whose root directory is fd.
func subvolumeID(fd int) (uint64, error) {
	const firstInode = 256 // of each subvolume: its root directory
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	if st.Ino != firstInode {
		return 0, errors.New("not the root of a subvolume")
	}
	var a btrfsArgs
	a.setWord(8, firstInode)
	err := a.ioctl(fd, btrfsInoLookup)
	return a.word(0), err
}

// scanSubvolumes looks for new subvolumes of the open shares on Btrfs, side by side: as long as one's
// storage does not respond, it is not asked again.
func (s *shareSet) scanSubvolumes() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sh := range s.open {
		if !sh.at.isBtrfs || sh.scanning {
			continue
		}
		sh.scanning = true
		dir := sh.at.real
		go func() {
			_, list := listSubvolumes(dir)
			s.mu.Lock()
			defer s.mu.Unlock()
			sh.at.subvolumes, sh.scanning = list, false
		}()
	}
}

// findSubvolumesLocked returns the exports for the subvolumes of those in list, and those that are
// left out.
func (s *shareSet) findSubvolumesLocked(list []exportSpec) (found []exportSpec, left []string) {
	isTaken := make(map[string]bool)
	for _, e := range list {
		isTaken[e.name] = true
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b exportSpec) int { return len(b.name) - len(a.name) }) // a subvolume belongs to the lowest
	for i := range list {
		e := &list[i]
		sh := s.open[e.shareKey()]
		if sh == nil || e.fault != nil {
			continue
		}
		for _, v := range sh.at.subvolumes {
			name := path.Join(e.name, v.path)
			switch {
			case isTaken[name]:
			case len(name) > mount3.PathLen:
				left = append(left, name)
			default:
				found = append(found, exportSpec{
					dir: path.Join(sh.at.real, v.path), name: name, clients: subvolumeClients(e), position: e.position, subvolID: v.id,
				})
			}
			isTaken[name] = true
		}
	}
	found, more := s.limitSubmountsLocked(found)
	return found, append(left, more...)
}

// subvolumeClients returns an export's clients for its subvolumes, which all of them see.
func subvolumeClients(e *exportSpec) []exports.Client {
	clients := submountClients(e.clients)
	for i := range clients {
		clients[i].Options.CrossMnt = clients[i].Options.CrossMnt || e.mountID == 0
	}
	return clients
}

// openSubvolume is posix.Open for a subvolume's directory: it opens no other than the subvolume with
// the ID of e.
func (e *exportSpec) openSubvolume(dir string, o posix.Options) (*posix.FS, error) {
	fd, err := openBeneath(unix.AT_FDCWD, dir, 0)
	if err != nil {
		return nil, fmt.Errorf("subvolume %s: %w", dir, err)
	}
	defer unix.Close(fd)
	if id, err := subvolumeID(fd); err != nil || id != e.subvolID {
		return nil, fmt.Errorf("subvolume %s: another directory is there now", strings.TrimSuffix(dir, "/"))
	}
	o.FSIDSeed = e.name
	return posix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), o)
}
