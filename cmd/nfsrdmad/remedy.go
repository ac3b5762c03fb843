package main

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// checkDir returns an error with a remedy if a directory cannot be served for a known reason.
func checkDir(dir string) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	switch {
	case err == nil:
		return f.Close()
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%s: no such directory: create it, or correct the path", dir)
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%s: not a directory: serve its parent directory", dir)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%s: no permission: run as root, or as a user who may read it", dir)
	default:
		return err
	}
}
