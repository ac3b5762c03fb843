package fusefs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// helper is the program that mounts FUSE file systems for ordinary users.
const helper = "fusermount3"

// mountWithHelper mounts with helper. The helper opens /dev/fuse, and sends the
// descriptor over a socket whose number is in its environment.
func mountWithHelper(c *Config) (fd int, err error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socketpair", err)
	}
	theirs := os.NewFile(uintptr(ends[1]), "socketpair")
	defer unix.Close(ends[0])
	defer theirs.Close()
	cmd := exec.Command(helper, "-o", strings.Join(helperOptions(c), ","), "--", c.Point)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{theirs}
	if err := runHelper(cmd); err != nil {
		return -1, fmt.Errorf("mount %s on %s: %w", c.Source, c.Point, err)
	}
	fd, err = receiveFD(ends[0])
	if err != nil {
		_ = unmountWithHelper(c.Point)
		return -1, fmt.Errorf("%s sent no descriptor: %w", helper, err)
	}
	return fd, nil
}

func helperOptions(c *Config) []string {
	list := []string{
		"fsname=" + escapeOption(c.Source), "subtype=nfsrdma", fmt.Sprintf("max_read=%d", maxTransfer),
	}
	for _, f := range []struct {
		on   bool
		word string
	}{
		{c.ReadOnly, "ro"},
		{c.NoSUID, "nosuid"},
		{c.NoDev, "nodev"},
		{c.NoExec, "noexec"},
		{c.AllowOther, "allow_other"},
	} {
		if f.on {
			list = append(list, f.word)
		}
	}
	return list
}

// escapeOption escapes the option separator.
func escapeOption(s string) string {
	return strings.NewReplacer(`\`, `\\`, `,`, `\,`).Replace(s)
}

func runHelper(cmd *exec.Cmd) error {
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	words := strings.TrimSpace(said.String())
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%s is not installed: apt install fuse3, or mount as root: %w", helper, err)
	case err != nil && strings.Contains(words, "user_allow_other"):
		return fmt.Errorf("%s: to serve other users, root must add user_allow_other to /etc/fuse.conf", words)
	case err != nil && strings.Contains(words, device+": Permission denied"):
		return fmt.Errorf("%s: to let users mount, run chmod 666 %s as root", words, device)
	case err != nil && words != "":
		return errors.New(words)
	case err != nil:
		return fmt.Errorf("%s: %w", helper, err)
	}
	return nil
}

// receiveFD receives one descriptor from a socket.
func receiveFD(socket int) (fd int, err error) {
	var one [1]byte
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, one[:], control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("recvmsg", err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return -1, err
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err == nil && len(fds) > 0 {
			return fds[0], nil
		}
	}
	return -1, errors.New("no descriptor in the message")
}

// unmountWithHelper unmounts with helper.
func unmountWithHelper(point string) error {
	if err := runHelper(exec.Command(helper, "-u", "--", point)); err != nil {
		return fmt.Errorf("umount %s: %w", point, err)
	}
	return nil
}
