package locking

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The file that Work changes: a counter, and then region marks. A region's mark is the
// number of the process that has it locked exclusively.
const (
	workName  = "work"
	regions   = 8
	markSize  = 8 // bytes
	workPause = 5 * time.Millisecond
)

var errTwice = errors.New("a lock has been granted twice")

// MakeWork makes the file that Work changes.
func MakeWork(dir string) error {
	return os.WriteFile(filepath.Join(dir, workName), make([]byte, (1+regions)*markSize), 0o666)
}

// Worked returns the counter in the file, and checks that no region has a mark.
func Worked(dir string) (count uint64, err error) {
	b, err := os.ReadFile(filepath.Join(dir, workName))
	if err != nil {
		return 0, err
	}
	for i := 1; i <= regions; i++ {
		if mark := binary.NativeEndian.Uint64(b[i*markSize:]); mark != 0 {
			return 0, fmt.Errorf("region %d has the mark of process %d", i, mark)
		}
	}
	return binary.NativeEndian.Uint64(b), nil
}

// Work locks parts of the file until in ends, with OFD locks, concurrently with other
// processes that do the same. A process that has a region locked exclusively must find no
// other process's mark. Work prints a line for each round: the number of increments by
// this process.
func Work(dir string, number uint64, in io.Reader, out io.Writer) error {
	f, err := os.OpenFile(filepath.Join(dir, workName), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	w := &worker{f: f, number: number}
	ended := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, bufio.NewReader(in))
		ended <- err
	}()
	for counted := 0; ; {
		for _, step := range []func() error{w.incrementCounter, w.lockExclusive, w.lockShared, w.lockSplit} {
			if err := step(); err != nil {
				return fmt.Errorf("round %d: %w", counted, err)
			}
		}
		counted++
		if _, err := fmt.Fprintln(out, counted); err != nil {
			return err
		}
		select {
		case err := <-ended:
			return err
		default:
		}
	}
}

type worker struct {
	f      *os.File
	number uint64
}

// lockRange locks length bytes, and retries while others hold them.
func (w *worker) lockRange(kind int16, start, length int64) error {
	for {
		_, err := fcntlLock(int(w.f.Fd()), unix.F_OFD_SETLK, kind, start, length)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return err
		}
		time.Sleep(workPause + rand.N(workPause))
	}
}

func (w *worker) readNumber(at int64) (uint64, error) {
	var b [markSize]byte
	_, err := w.f.ReadAt(b[:], at)
	return binary.NativeEndian.Uint64(b[:]), err
}

// writeNumber writes a number, which others see when write has returned.
func (w *worker) writeNumber(at int64, n uint64) error {
	_, err := w.f.WriteAt(binary.NativeEndian.AppendUint64(nil, n), at)
	if err == nil {
		err = unix.Fdatasync(int(w.f.Fd()))
	}
	return err
}

// incrementCounter adds 1 to the counter.
func (w *worker) incrementCounter() error {
	err := w.lockRange(unix.F_WRLCK, 0, markSize)
	if err != nil {
		return err
	}
	n, err := w.readNumber(0)
	if err == nil {
		err = w.writeNumber(0, n+1)
	}
	return errors.Join(err, w.lockRange(unix.F_UNLCK, 0, markSize))
}

// markRegion marks a region that is locked exclusively, and later removes the mark.
func (w *worker) markRegion(at int64) error {
	for _, step := range [][2]uint64{{0, w.number}, {w.number, 0}} {
		n, err := w.readNumber(at)
		if err != nil {
			return err
		}
		if n != step[0] {
			return fmt.Errorf("%w: the region at %d has the mark %d, not %d", errTwice, at, n, step[0])
		}
		if err := w.writeNumber(at, step[1]); err != nil {
			return err
		}
		time.Sleep(rand.N(2 * workPause))
	}
	return nil
}

func randomRegion() int64 { return int64(1+rand.N(regions)) * markSize }

// lockExclusive locks a region, and marks it.
func (w *worker) lockExclusive() error {
	at := randomRegion()
	if err := w.lockRange(unix.F_WRLCK, at, markSize); err != nil {
		return err
	}
	return errors.Join(w.markRegion(at), w.lockRange(unix.F_UNLCK, at, markSize))
}

// lockShared locks a region for reading: no process may mark it.
func (w *worker) lockShared() error {
	at := randomRegion()
	if err := w.lockRange(unix.F_RDLCK, at, markSize); err != nil {
		return err
	}
	n, err := w.readNumber(at)
	if err == nil && n != 0 {
		err = fmt.Errorf("%w: the region at %d has the mark %d, and a shared lock", errTwice, at, n)
	}
	return errors.Join(err, w.lockRange(unix.F_UNLCK, at, markSize))
}

// lockSplit locks all regions except one in the middle, which others may lock.
func (w *worker) lockSplit() error {
	const last = (1 + regions) * markSize
	if err := w.lockRange(unix.F_WRLCK, markSize, last-markSize); err != nil {
		return err
	}
	hole := int64(2+rand.N(regions-2)) * markSize
	err := w.lockRange(unix.F_UNLCK, hole, markSize)
	for _, at := range []int64{markSize, last - markSize} {
		err = errors.Join(err, w.markRegion(at))
	}
	return errors.Join(err, w.lockRange(unix.F_UNLCK, markSize, last-markSize))
}
