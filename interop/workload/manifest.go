package workload

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sync/errgroup"
)

const manifestJobs = 8 // at once, because each mostly waits for replies

// Manifest writes one line for each object below dir, in the order of their names: name,
// type and mode, owner, group, links, modification time, and by type: a file's length and
// SHA-256, a link's target, a device number. The same tree gives the same lines on every
// mount.
func Manifest(dir string, w io.Writer) error {
	var lines []*string
	var jobs errgroup.Group
	jobs.SetLimit(manifestJobs)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		line := new(string)
		lines = append(lines, line)
		jobs.Go(func() error {
			text, err := describeFile(path)
			*line = fmt.Sprintf("%q %s\n", name, text)
			return err
		})
		return nil
	})
	if err := errors.Join(err, jobs.Wait()); err != nil {
		return err
	}
	for _, line := range lines {
		if _, err := io.WriteString(w, *line); err != nil {
			return err
		}
	}
	return nil
}

func describeFile(path string) (string, error) {
	i, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	s := i.Sys().(*syscall.Stat_t)
	line := fmt.Sprintf("%o %d:%d links=%d mtime=%d.%09d", s.Mode, s.Uid, s.Gid, s.Nlink, s.Mtim.Sec, s.Mtim.Nsec)
	switch i.Mode().Type() {
	case 0:
		sum, err := hashFile(path)
		return fmt.Sprintf("%s size=%d sha256=%x", line, s.Size, sum), err
	case fs.ModeSymlink:
		target, err := os.Readlink(path)
		return fmt.Sprintf("%s -> %q", line, target), err
	default:
		return fmt.Sprintf("%s rdev=%d", line, s.Rdev), nil
	}
}

func hashFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
}
