package fusefs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// mountFS mounts the file system and returns the /dev/fuse descriptor.
func mountFS(c *Config) (fd int, err error) {
	info, err := os.Stat(c.Point)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return -1, fmt.Errorf("mount point %s does not exist: create it with mkdir", c.Point)
	case errors.Is(err, unix.ENOTCONN):
		return -1, fmt.Errorf("mount point %s has a mount whose program has exited: run umount %s", c.Point, c.Point)
	case err != nil:
		return -1, fmt.Errorf("mount point: %w", err)
	case !info.IsDir():
		return -1, fmt.Errorf("mount point %s is not a directory", c.Point)
	}
	if c.Direct {
		c.AllowOther = true
		return mountDirect(c)
	}
	return mountWithHelper(c)
}

// unmountFS unmounts.
func unmountFS(c *Config) error {
	if !c.Direct {
		return unmountWithHelper(c.Point)
	}
	switch err := unix.Unmount(c.Point, 0); {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%s is in use: close its files and leave its directories (fuser -vm %s lists their users), or run umount --lazy", c.Point, c.Point)
	case err != nil:
		return fmt.Errorf("umount %s: %w", c.Point, err)
	}
	return nil
}

// device is the path to the kernel's FUSE device.
const device = "/dev/fuse"

// mountDirect mounts with mount(2).
func mountDirect(c *Config) (fd int, err error) {
	fd, err = unix.Open(device, unix.O_RDWR|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return -1, fmt.Errorf("%s does not exist: load the kernel's FUSE with modprobe fuse, or give the container the device: %w", device, err)
	case err != nil:
		return -1, fmt.Errorf("%s: %w", device, err)
	}
	data := fmt.Sprintf("fd=%d,rootmode=%o,user_id=%d,group_id=%d,max_read=%d,allow_other",
		fd, unix.S_IFDIR, os.Geteuid(), os.Getegid(), maxTransfer)
	if err := unix.Mount(c.Source, c.Point, "fuse.nfsrdma", mountFlags(c), data); err != nil {
		unix.Close(fd)
		if errors.Is(err, unix.EPERM) {
			err = fmt.Errorf("%w: run as root (CAP_SYS_ADMIN)", err)
		}
		return -1, fmt.Errorf("mount %s on %s: %w", c.Source, c.Point, err)
	}
	return fd, nil
}

func mountFlags(c *Config) (flags uintptr) {
	for _, f := range []struct {
		on   bool
		flag uintptr
	}{{c.ReadOnly, unix.MS_RDONLY}, {c.NoSUID, unix.MS_NOSUID}, {c.NoDev, unix.MS_NODEV}, {c.NoExec, unix.MS_NOEXEC}} {
		if f.on {
			flags |= f.flag
		}
	}
	return flags
}
