package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// listenError says why an address cannot be listened on, and what to change.
// off is a further remedy, or empty.
func listenError(flag, addr string, err error, off string) error {
	say := func(what, remedy string) error {
		return fmt.Errorf("cannot listen on %s: %s; %s%s", addr, what, remedy, off)
	}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return say("the port is in use", "choose another with "+flag)
	case errors.Is(err, unix.EACCES):
		return say("no permission for this port", "run as root, or choose one above 1023 with "+flag)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return say("this machine has no such address", "correct "+flag)
	default:
		return fmt.Errorf("cannot listen on %s (%s): %w", addr, flag, err)
	}
}

// checkDir says why a directory cannot be served, where that is plain, and what
// to change.
func checkDir(dir string) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%s: no such directory: create it, or correct the path", dir)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s: not a directory: serve the directory that holds it", dir)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s: no permission: run as root, or as a user who may read it", dir)
	default:
		return err
	}
}
