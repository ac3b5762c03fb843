package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
)

// nearlyFull is the free space, in percent, below which a file system is nearly full.
const nearlyFull = 5

// checkSpace checks whether the file system of a directory is writable and has free space. use
// says why that is needed.
func checkSpace(check, dir, use string) Finding {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Finding{check, Warn, fmt.Sprintf("%s: the free space is unknown (%v)", dir, err), "see df " + dir}
	}
	m := containingMount(dir)
	free := func(free, all uint64) uint64 { return free * 100 / max(all, 1) }
	switch {
	case s.Flags&unix.ST_RDONLY != 0:
		return Finding{check, Fail, fmt.Sprintf("%s is on a read-only file system, %s", dir, use), "mount -o remount,rw " + m.Point + ", unless dmesg shows errors of its disk"}
	case s.Blocks > 0 && s.Bavail == 0:
		return Finding{check, Fail, fmt.Sprintf("the file system of %s is full, %s", dir, use), "free some space: du -xsh " + m.Point + "/*"}
	case s.Files > 0 && s.Ffree == 0:
		return Finding{check, Fail, fmt.Sprintf("the file system of %s has no space for more files, %s", dir, use), "remove files: du -x --inodes " + m.Point}
	case s.Blocks > 0 && free(s.Bavail, s.Blocks) < nearlyFull:
		return Finding{check, Warn, fmt.Sprintf("%d %% of the file system of %s is free, %s", free(s.Bavail, s.Blocks), dir, use), "free some space: du -xsh " + m.Point + "/*"}
	}
	return Finding{check, OK, fmt.Sprintf("%d %% of the file system of %s is free", free(s.Bavail, max(s.Blocks, 1)), dir), ""}
}

// containingMount returns the mount that contains a directory, or one of unknown type at the
// directory.
func containingMount(dir string) mountinfo.Mount {
	unknown := mountinfo.Mount{Point: dir, Kind: "unknown"}
	var x unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_MNT_ID, &x) != nil || x.Mask&unix.STATX_MNT_ID == 0 {
		return unknown
	}
	all, err := mountinfo.All()
	if err != nil {
		return unknown
	}
	for _, m := range all {
		if m.ID == x.Mnt_id {
			return m
		}
	}
	return unknown
}

// checkState checks whether the state directory can be written or created.
func (h *Host) checkState(ctx context.Context) Finding {
	if h.State == "" {
		return Finding{"state", Fail, "this user has no state directory", "choose one with --state"}
	}
	const use = "and clients cannot open or lock files without a state directory"
	if _, err := probeFileSystem(ctx, h.State, h.probeTimeout); errors.Is(err, errNoAnswer) {
		return Finding{"state", Fail, fmt.Sprintf("the file system of %s does not respond, %s", h.State, use), "choose a directory on a local disk with --state"}
	}
	dir := h.State
	for {
		_, err := os.Stat(dir)
		if err == nil {
			break
		}
		if parent := filepath.Dir(dir); errors.Is(err, os.ErrNotExist) && parent != dir {
			dir = parent
			continue
		}
		return Finding{"state", Fail, fmt.Sprintf("the state directory cannot be used: %v", err), "correct --state, or the permissions"}
	}
	f := checkSpace("state", dir, use)
	if f.Grade == Fail {
		return f
	}
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return Finding{"state", Fail, fmt.Sprintf("%s cannot be written (%v), %s", dir, cli.Cause(err), use), "chown it to the daemon's user, or choose another with --state"}
	}
	return f
}
