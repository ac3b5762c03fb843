package main

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// directIO is the mode that bypasses the page cache.
const directIO = "direct"

// openFile opens a file, and returns it with a page-aligned block, as O_DIRECT
// requires.
func openFile(name, how string, flags int) (*os.File, []byte, error) {
	if how == directIO {
		flags |= unix.O_DIRECT
	}
	f, err := os.OpenFile(name, flags, 0)
	if err != nil {
		return nil, nil, err
	}
	b, err := unix.Mmap(-1, 0, blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_POPULATE)
	return f, b, err
}

// lapSize is the number of bytes that are read or written before starting again. It
// is small, so that the page cache reuses memory that was just in use. A virtual
// machine returns larger amounts to its host, which provides them again only at 0.3
// GB/s.
const lapSize = 256 << 20

// dropPageCache drops a file's pages from the page cache.
func dropPageCache(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

// runReader reads a file's start repeatedly, never from the page cache. Its
// arguments are the file's name, the mode, and the time.
func runReader(args []string) error {
	f, b, err := openFile(args[0], args[1], os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	k, err := runLaps(f, args[2], func(at int64) error {
		_, err := f.ReadAt(b, at)
		return err
	})
	if err != nil {
		return err
	}
	return k.printResult()
}

// runWriter overwrites a file's start repeatedly, with none of it in the page
// cache, and finally waits until the data are stable. Its arguments are the file's
// name, the mode, and the time.
func runWriter(args []string) error {
	f, b, err := openFile(args[0], args[1], os.O_WRONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	k, err := runLaps(f, args[2], func(at int64) error {
		_, err := f.WriteAt(b, at)
		return err
	})
	if err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	k.lastOp = time.Now()
	return k.printResult()
}

// runLaps applies do to a file's blocks, one after another. The measured time
// begins with the second lap. A lap ends when its data are stable; emptying the
// page cache is not measured.
func runLaps(f *os.File, d string, do func(at int64) error) (*opClock, error) {
	k := new(opClock)
	for first := true; ; first = false {
		for at := int64(0); at < lapSize; at += blockSize {
			if err := do(at); err != nil {
				return nil, err
			}
			if !k.recordOp(blockSize) && !first {
				return k, nil
			}
		}
		err := errors.Join(f.Sync(), k.runUnmeasured(func() error { return dropPageCache(f) }))
		if first && err == nil {
			k, err = startClock(d)
		}
		if err != nil {
			return nil, err
		}
	}
}

// runLister lists a directory with all entries' attributes, repeatedly. Its
// arguments are the directory and the time.
func runLister(args []string) error {
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
		if !k.recordOp(0) {
			return k.printResult()
		}
	}
}
