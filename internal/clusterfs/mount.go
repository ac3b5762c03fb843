package clusterfs

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// commandWord, as a program's first argument, selects the commands of this package.
const commandWord = "clusterfs"

// readyLine is what a command prints when it is ready.
const readyLine = "ready\n"

// Kind is the mounts' file system type.
const Kind = "fuse.clusterfs"

// RunCommand executes the commands that Start, Mount and FenceCommand name, in a process that
// was started for one, and exits. In other processes it returns. It must be called first
// in a test program's TestMain.
func RunCommand() {
	if len(os.Args) < 5 || os.Args[1] != commandWord {
		return
	}
	if err := runCommand(os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		fmt.Fprintln(os.Stderr, "clusterfs:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runCommand(verb, socket string, args []string) error {
	switch {
	case verb == "engine" && len(args) == 2:
		return runEngine(socket, args[0], args[1])
	case verb == "mount" && len(args) == 2:
		return runMount(socket, args[0], args[1])
	case verb == "control":
		return control(socket, strings.Join(args, " "))
	}
	return fmt.Errorf("unknown command %s", verb)
}

func runMount(path, host, dir string) error {
	socket, err := dial(path, "mount "+host)
	if err != nil {
		return err
	}
	device, err := mount(path, dir)
	if err != nil {
		return err
	}
	fmt.Print(readyLine)
	go forward(device, socket)
	forward(socket, device)
	return nil
}

func dial(path, greeting string) (socket int, err error) {
	socket, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Connect(socket, &unix.SockaddrUnix{Name: path})
	}
	if err == nil {
		err = writeMessage(socket, []byte(greeting))
	}
	return socket, err
}

func mount(source, dir string) (device int, err error) {
	device, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other,max_read=%d", device, maxWrite)
	return device, unix.Mount(source, dir, Kind, unix.MS_NOSUID|unix.MS_NODEV, options)
}

// forward forwards messages until the mount or the connection ends, and then exits.
func forward(from, to int) {
	buf := make([]byte, 1<<20)
	for {
		n, err := readMessage(from, buf)
		if err == nil && n > 0 {
			err = writeMessage(to, buf[:n])
		}
		// ENOENT: the request was interrupted.
		if n == 0 || err != nil && !errors.Is(err, unix.ENOENT) {
			os.Exit(0)
		}
	}
}
