package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
)

// umountOptions are the flags of umount.
type umountOptions struct{ lazy, force bool }

func (a *app) newUmount() *cobra.Command {
	var o umountOptions
	cmd := &cobra.Command{
		Use:   "umount MOUNTPOINT",
		Short: "Unmount a file system that mountrdma has mounted",
		Long: `Unmount a file system that mountrdma has mounted. The server has all written data
when the command returns, unless -l or -f is given. umount(8) also works for
root, and fusermount3 -u for other users.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return errors.New("umount needs one mount point")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	cmd.Flags().BoolVarP(&o.lazy, "lazy", "l", false, "detach the file system now, even if it is busy")
	cmd.Flags().BoolVarP(&o.force, "force", "f", false, "first abort all requests that wait for the server, with errors (root)")
	return cmd
}

func (o *umountOptions) run(ctx context.Context, name string) error {
	m, err := findMount(name)
	if err != nil {
		return err
	}
	exit := dialExitSocket(m.Device)
	if exit != nil {
		defer exit.Close()
	}
	flags := 0
	if o.lazy {
		flags |= unix.MNT_DETACH
	}
	if o.force {
		flags |= unix.MNT_FORCE
	}
	if err := detachMount(m.Point, flags); err != nil {
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("%s is busy: run 'fuser -vm %s' to list the processes, or use -l to detach anyway", name, m.Point)
		}
		return fmt.Errorf("%s: %w", name, err)
	}
	if exit == nil || o.lazy || o.force {
		return nil
	}
	return awaitExit(ctx, exit)
}

// findMount finds the mount of this program that an operand names. It accesses nothing on
// the mounted file system, which may be dead.
func findMount(name string) (mountinfo.Mount, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return mountinfo.Mount{}, err
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	m, found, err := mountinfo.At(path)
	if err == nil && !found {
		if path, err := filepath.EvalSymlinks(path); err == nil { // the operand itself is a link
			m, found, _ = mountinfo.At(path)
		}
	}
	switch {
	case err != nil:
		return m, err
	case !found:
		return m, fmt.Errorf("nothing is mounted on %s", name)
	case m.Kind != fsType:
		return m, fmt.Errorf("%s is a mount of type %s, not of mountrdma: umount(8) unmounts it", name, m.Kind)
	}
	return m, nil
}

// detachMount unmounts directly as root, and with fusermount3 as another user.
func detachMount(point string, flags int) error {
	if isRoot() {
		return unix.Unmount(point, flags|unix.UMOUNT_NOFOLLOW)
	}
	path, err := findFusermount()
	if err != nil {
		return err
	}
	args := []string{"-u", point}
	if flags&unix.MNT_DETACH != 0 {
		args = []string{"-u", "-z", point}
	}
	words, err := exec.Command(path, args...).CombinedOutput()
	if err == nil {
		return nil
	}
	if strings.Contains(string(words), unix.EBUSY.Error()) {
		return unix.EBUSY
	}
	return errors.New(strings.TrimSpace(string(words)))
}
