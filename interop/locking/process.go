package locking

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockedName is the file in which the processes lock bytes.
const lockedName = "locked"

// Process executes the commands in in, one on each line, and replies to each command with
// a line:
//
//	open SLOT                            open the file
//	open-read, open-write SLOT           open it only for this purpose
//	close SLOT
//	posix SLOT KIND START LENGTH         lock by fcntl; KIND is read, write or none
//	posix-wait SLOT KIND START LENGTH
//	posix-test SLOT KIND START LENGTH
//	ofd, ofd-wait, ofd-test              the same for the open file description
//	lockf SLOT OFFSET LENGTH             lockf(3) from an offset
//	flock SLOT KIND                      without waiting
//	flock-wait SLOT KIND
//	many COUNT KIND START LENGTH STEP    OFD locks for as many open files
//	few                                  close these files
//	count SLOT                           add 1 to the number in the file
//	write SLOT                           write a byte, and sync
func Process(dir string, in io.Reader, out io.Writer) error {
	p := process{path: filepath.Join(dir, lockedName), slots: make(map[int]int)}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		answer, err := p.execute(strings.Fields(lines.Text()))
		if errno := unix.Errno(0); errors.As(err, &errno) {
			answer = unix.ErrnoName(errno)
		} else if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, answer); err != nil {
			return err
		}
	}
	return lines.Err()
}

// A process has the file open, by slots.
type process struct {
	path    string
	slots   map[int]int
	manyFDs []int
}

var lockKinds = map[string]int16{"read": unix.F_RDLCK, "write": unix.F_WRLCK, "none": unix.F_UNLCK}

var flockModes = map[string]int{"read": unix.LOCK_SH, "write": unix.LOCK_EX, "none": unix.LOCK_UN}

var openFlags = map[string]int{"open": unix.O_RDWR, "open-read": unix.O_RDONLY, "open-write": unix.O_WRONLY}

var fcntlCommands = map[string]int{
	"posix": unix.F_SETLK, "posix-wait": unix.F_SETLKW, "posix-test": unix.F_GETLK,
	"ofd": unix.F_OFD_SETLK, "ofd-wait": unix.F_OFD_SETLKW, "ofd-test": unix.F_OFD_GETLK,
}

func (p *process) execute(words []string) (string, error) {
	var n [5]int64 // the words that are numbers
	for i, w := range words {
		n[i], _ = strconv.ParseInt(w, 10, 64)
	}
	fd := -1
	if len(words) > 1 {
		fd = p.slots[int(n[1])]
	}
	switch words[0] {
	case "open", "open-read", "open-write":
		opened, err := unix.Open(p.path, openFlags[words[0]]|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		p.slots[int(n[1])] = opened
		return "ok", err
	case "close":
		return "ok", unix.Close(fd)
	case "flock":
		return "ok", unix.Flock(fd, flockModes[words[2]]|unix.LOCK_NB)
	case "flock-wait":
		return "ok", unix.Flock(fd, flockModes[words[2]])
	case "lockf":
		if _, err := unix.Seek(fd, n[2], io.SeekStart); err != nil {
			return "", err
		}
		return "ok", unix.FcntlFlock(uintptr(fd), unix.F_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekCurrent, Len: n[3]})
	case "many":
		return "ok", p.lockMany(int(n[1]), lockKinds[words[2]], n[3], n[4])
	case "few":
		for _, fd := range p.manyFDs {
			if err := unix.Close(fd); err != nil {
				return "", err
			}
		}
		p.manyFDs = nil
		return "ok", nil
	case "count":
		return p.incrementFile(fd)
	case "write":
		if _, err := unix.Pwrite(fd, []byte("w"), 0); err != nil {
			return "", err
		}
		return "ok", unix.Fdatasync(fd)
	}
	command, ok := fcntlCommands[words[0]]
	if !ok || len(words) != 5 {
		return "", fmt.Errorf("no such command: %q", words)
	}
	return fcntlLock(fd, command, lockKinds[words[2]], n[3], n[4])
}

// fcntlLock calls fcntl. A test returns the lock that was found.
func fcntlLock(fd, command int, kind int16, start, length int64) (string, error) {
	l := unix.Flock_t{Type: kind, Start: start, Len: length}
	err := unix.FcntlFlock(uintptr(fd), command, &l)
	if command != unix.F_GETLK && command != unix.F_OFD_GETLK || err != nil {
		return "ok", err
	}
	for name, kind := range lockKinds {
		if kind == l.Type && kind != unix.F_UNLCK {
			return fmt.Sprintf("%s lock of %d at %d", name, l.Len, l.Start), nil
		}
	}
	return "free", nil
}

// lockMany opens the file many times, and locks length bytes for each, or the whole file.
func (p *process) lockMany(count int, kind int16, start, length int64) error {
	most := unix.Rlimit{Cur: uint64(2*count + 100), Max: uint64(2*count + 100)}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &most); err != nil {
		return err
	}
	for i := range int64(count) {
		fd, err := unix.Open(p.path, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		p.manyFDs = append(p.manyFDs, fd)
		if _, err := fcntlLock(fd, unix.F_OFD_SETLK, kind, start+i*length, length); err != nil {
			return err
		}
	}
	return nil
}

// incrementFile adds 1 to the number in the file, under a lock.
func (p *process) incrementFile(fd int) (string, error) {
	if _, err := fcntlLock(fd, unix.F_SETLKW, unix.F_WRLCK, 0, 0); err != nil {
		return "", err
	}
	b := make([]byte, 20)
	n, err := unix.Pread(fd, b, 0)
	if err != nil {
		return "", err
	}
	v, _ := strconv.Atoi(string(b[:n]))
	if _, err := unix.Pwrite(fd, strconv.AppendInt(nil, int64(v+1), 10), 0); err != nil {
		return "", err
	}
	_, err = fcntlLock(fd, unix.F_SETLKW, unix.F_UNLCK, 0, 0)
	return strconv.Itoa(v + 1), err
}

// removeFile removes the file.
func removeFile(dir string) error { return os.Remove(filepath.Join(dir, lockedName)) }
