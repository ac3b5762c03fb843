package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
)

func isRoot() bool { return os.Geteuid() == 0 }

// fsType is the file system type of our mounts in /proc/mounts.
const fsType = "fuse.nfsrdma"

// checkPoint resolves the mount point and checks that it can be mounted on.
func (m *mountCommand) checkPoint() error {
	point, err := filepath.Abs(m.point)
	if err == nil {
		point, err = filepath.EvalSymlinks(point)
	}
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(point)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("mount point %s does not exist: create it (mkdir), or correct the path", m.point)
	case errors.Is(err, unix.ENOTCONN):
		return fmt.Errorf("mount point %s has a FUSE mount whose process has died: mountrdma umount %s removes it", m.point, m.point)
	case err != nil:
		return fmt.Errorf("mount point %s: %w", m.point, cli.Cause(err))
	case !info.IsDir():
		return fmt.Errorf("mount point %s is not a directory: correct the path", m.point)
	}
	m.point = point
	on, ok, err := mountinfo.At(point)
	if err == nil && ok && on.Kind == fsType && on.Source == m.source {
		return fmt.Errorf("mount point %s is busy: %s is mounted there already; mountrdma umount %s removes it", point, on.Source, point)
	}
	return err
}

const fuseDevice = "/dev/fuse"

// checkFUSE checks that this host has everything that a mount needs.
func (m *mountCommand) checkFUSE() error {
	err := unix.Faccessat(unix.AT_FDCWD, fuseDevice, unix.R_OK|unix.W_OK, unix.AT_EACCESS)
	switch {
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%s is missing: load the kernel module (modprobe fuse), or give the device to the container", fuseDevice)
	case err != nil:
		return fmt.Errorf("%s: %w: as root, make it accessible (chmod 0666 %s), or mount as root", fuseDevice, err, fuseDevice)
	case isRoot():
		return nil
	}
	if _, err := findFusermount(); err != nil {
		return err
	}
	if m.opts.AllowOther && !userAllowOther() {
		return fmt.Errorf("allow_other is for root: as root, add user_allow_other to %s, or omit the option", fuseConf)
	}
	if err := unix.Faccessat(unix.AT_FDCWD, m.point, unix.W_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("mount point %s: %w: an ordinary user can mount only on a directory with write permission", m.point, err)
	}
	return nil
}

// findFusermount returns the path of the program that mounts for ordinary users.
func findFusermount() (string, error) {
	path, err := exec.LookPath("fusermount3")
	if err != nil {
		return "", errors.New("fusermount3 is missing, which ordinary users need to mount: install the package fuse3, or mount as root")
	}
	return path, nil
}

const fuseConf = "/etc/fuse.conf"

// userAllowOther reports whether ordinary users may give others access to their
// mounts (fuse(8)).
func userAllowOther() bool {
	conf, _ := os.ReadFile(fuseConf) // a missing file means no
	return regexp.MustCompile(`(?m)^\s*user_allow_other\s*$`).Match(conf)
}
