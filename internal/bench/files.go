package main

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// direct says that a file is to be read or written past the page cache.
const direct = "direct"

// openFile opens a file, and returns it with a block that starts at a page, as
// O_DIRECT wants it.
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

// forget empties the page cache of a file.
func forget(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

// reader reads a file from its start, again and again, and never from the page
// cache. Its arguments are the file's name, how, and for how long.
func reader(args []string) error {
	f, b, err := openFile(args[0], args[1], os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := forget(f); err != nil {
		return err
	}
	k, err := startClock(args[2])
	if err != nil {
		return err
	}
	for {
		n, err := io.ReadFull(f, b)
		if errors.Is(err, io.EOF) {
			if err := k.pause(func() error { return rewind(f) }); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		if !k.tick(n) {
			return k.print()
		}
	}
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return errors.Join(err, forget(f))
}

// pause does something that is not measured.
func (c *clock) pause(do func() error) error {
	err := do()
	lost := time.Since(c.then)
	c.start, c.end, c.then = c.start.Add(lost), c.end.Add(lost), c.then.Add(lost)
	return err
}

// writer writes over a file, again and again, and at the end waits for its data
// to be stable. Its arguments are those of reader.
func writer(args []string) error {
	f, b, err := openFile(args[0], args[1], os.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	k, err := startClock(args[2])
	if err != nil {
		return err
	}
	for at := int64(0); ; at = (at + block) % fileSize {
		if _, err := f.WriteAt(b, at); err != nil {
			return err
		}
		if !k.tick(block) {
			break
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	k.then = time.Now()
	return k.print()
}

// lister lists a directory with the attributes of all in it, again and again. Its
// arguments are the directory and for how long.
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
