package main

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// direct says to bypass the page cache.
const direct = "direct"

// openFile opens a file, and returns it with a page-aligned block, as O_DIRECT
// requires.
func openFile(name, how string, flags int) (*os.File, []byte, error) {
	if how == direct {
		flags |= unix.O_DIRECT
	}
	f, err := os.OpenFile(name, flags, 0)
	if err != nil {
		return nil, nil, err
	}
	b, err := unix.Mmap(-1, 0, block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	return f, b, err
}

// lap is how many bytes of a file are read or written before starting again. It
// is small, so that the page cache reuses memory that was in use a moment ago.
// A virtual machine returns larger amounts to its host, which provides them
// again only at 0.3 GB/s.
const lap = 256 << 20

// forget empties the page cache of a file.
func forget(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

// reader reads the start of a file repeatedly, never from the page cache. Its
// arguments are the file's name, the mode, and the time.
func reader(args []string) error {
	f, b, err := openFile(args[0], args[1], os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	k, err := laps(f, args[2], func(at int64) error {
		_, err := f.ReadAt(b, at)
		return err
	})
	if err != nil {
		return err
	}
	return k.print()
}

// writer overwrites the start of a file repeatedly, with none of it in the page
// cache, and finally waits until the data are stable. Its arguments are those
// of reader.
func writer(args []string) error {
	f, b, err := openFile(args[0], args[1], os.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	k, err := laps(f, args[2], func(at int64) error {
		_, err := f.WriteAt(b, at)
		return err
	})
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	k.then = time.Now()
	return k.print()
}

// laps applies do to one block of a file after the other. The measured time
// begins with the second lap. A lap ends when its data are stable; emptying the
// page cache is not measured.
func laps(f *os.File, d string, do func(at int64) error) (*clock, error) {
	k := new(clock)
	for first := true; ; first = false {
		for at := int64(0); at < lap; at += block {
			if err := do(at); err != nil {
				return nil, err
			}
			if !k.tick(block) && !first {
				return k, nil
			}
		}
		err := errors.Join(f.Sync(), k.pause(func() error { return forget(f) }))
		if first && err == nil {
			k, err = startClock(d)
		}
		if err != nil {
			return nil, err
		}
	}
}

// lister lists a directory with the attributes of all entries, repeatedly. Its
// arguments are the directory and the time.
func lister(args []string) error {
	k, err := startClock(args[1])
	if err != nil {
		return err
	}
	for {
		all, err := os.ReadDir(args[0])
		if err != nil {
			return err
		}
		for _, e := range all {
			if _, err := e.Info(); err != nil {
				return err
			}
		}
		if !k.tick(0) {
			return k.print()
		}
	}
}
