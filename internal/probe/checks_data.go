package probe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const cookieNames = 300

func cookiesOne(r *run) error {
	if err := os.Mkdir(r.path("names"), 0o700); err != nil {
		return err
	}
	dir, err := r.open("names", os.O_RDONLY)
	if err != nil {
		return err
	}
	defer dir.Close()
	for i := range cookieNames {
		f, err := r.open(fmt.Sprintf("names/name%d", i), os.O_WRONLY|os.O_CREATE|os.O_EXCL)
		if err != nil {
			return err
		}
		f.Close()
	}
	if err := dir.Sync(); err != nil {
		return err
	}
	names, cookie, err := listNames(r.path("names"), 0, cookieNames/2)
	if err != nil {
		return err
	}
	return r.tell(message{Names: names, Number: cookie})
}

func cookiesTwo(r *run) (Finding, error) {
	m, err := r.hearMessage()
	if err != nil {
		return Finding{}, err
	}
	names, _, err := listNames(r.path("names"), m.Number, 2*cookieNames)
	if err != nil {
		return Finding{}, err
	}
	all := append(names, m.Names...)
	slices.Sort(all)
	once := slices.Compact(slices.Clone(all))
	if len(once) != cookieNames || len(all) != cookieNames {
		return Finding{Level: levelFail, Found: fmt.Sprintf("a listing that goes on at the other host has %d of %d names, %d of them twice", len(once), cookieNames, len(all)-len(once)), Then: "clients could miss files after a change of hosts"}, nil
	}
	return Finding{Level: levelOK, Found: "a listing can go on at the other host"}, nil
}

// listNames lists at most n names after a cookie, without . and ..
func listNames(dir string, cookie int64, n int) (names []string, last int64, err error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, err
	}
	defer unix.Close(fd)
	if _, err := unix.Seek(fd, cookie, unix.SEEK_SET); err != nil {
		return nil, 0, err
	}
	buf := make([]byte, 8192)
	for {
		size, err := unix.Getdents(fd, buf)
		if err != nil || size == 0 {
			return names, last, err
		}
		for rest := buf[:size]; len(rest) > 0; {
			reclen := binary.NativeEndian.Uint16(rest[16:])
			name, _, _ := bytes.Cut(rest[19:reclen], []byte{0})
			last = int64(binary.NativeEndian.Uint64(rest[8:]))
			rest = rest[reclen:]
			if string(name) != "." && string(name) != ".." {
				names = append(names, string(name))
			}
			if len(names) == n {
				return names, last, nil
			}
		}
	}
}

func dataOne(r *run) error {
	f, err := r.create("data", "old")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := r.exchange(); err != nil {
		return err
	}
	if _, err := f.WriteAt([]byte("newer"), 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return r.tell(message{})
}

// dataTwo measures for how long the host's caches show the content from before a
// synced write.
func dataTwo(r *run) (Finding, error) {
	if _, err := r.hearMessage(); err != nil {
		return Finding{}, err
	}
	if !r.hasContent("data", "old") {
		return Finding{}, errors.New("a synced write is not seen at the other host")
	}
	if err := r.tell(message{}); err != nil {
		return Finding{}, err
	}
	if _, err := r.hearMessage(); err != nil {
		return Finding{}, err
	}
	attributes := time.Duration(-1)
	start := time.Now()
	data, err := r.waitFor(time.Minute, func() bool {
		if st, err := os.Stat(r.path("data")); attributes < 0 && err == nil && st.Size() == 5 {
			attributes = time.Since(start)
		}
		return attributes >= 0 && r.hasContent("data", "newer")
	})
	if err != nil {
		return Finding{}, err
	}
	if data < 0 {
		return Finding{Level: levelFail, Found: "caches show old data for more than a minute after a sync", Then: "mount without them"}, nil
	}
	if data < 5*pollPeriod {
		return Finding{Level: levelOK, Found: "what one host has synced, the other reads at once"}, nil
	}
	return Finding{
		Level: levelNote, Found: fmt.Sprintf("caches show old attributes for %.1f s, and old data for %.1f s", attributes.Seconds(), data.Seconds()),
		Then: fmt.Sprintf("add %.0f s to --tenure-time", data.Seconds()+0.5),
	}, nil
}

func (r *run) hasContent(name, want string) bool {
	b, err := os.ReadFile(r.path(name))
	return err == nil && string(b) == want
}

func renameOne(r *run) error {
	f, err := r.create("renamed", "old")
	if err != nil {
		return err
	}
	f.Close()
	if err := r.exchange(); err != nil {
		return err
	}
	if f, err = r.create("replacement", "new"); err != nil {
		return err
	}
	f.Close()
	if err := os.Rename(r.path("replacement"), r.path("renamed")); err != nil {
		return err
	}
	return r.exchange()
}

func renameTwo(r *run) (Finding, error) {
	f, err := r.openAndGoOn("renamed")
	if err != nil {
		return Finding{}, err
	}
	defer f.Close()
	took, err := r.waitFor(time.Minute, func() bool { return r.hasContent("renamed", "new") })
	if err != nil {
		return Finding{}, err
	}
	b := make([]byte, 3)
	_, readErr := f.ReadAt(b, 0)
	if err := r.tell(message{}); err != nil {
		return Finding{}, err
	}
	if took < 0 {
		return Finding{Level: levelFail, Found: "a replaced file is not seen at the other host", Then: "records in the state directory could be lost"}, nil
	}
	return judgeRemoved(readErr, b, "replaced"), nil
}

// openAndGoOn opens a file of host 1, lets host 1 remove it, and waits until it has.
func (r *run) openAndGoOn(name string) (*os.File, error) {
	if _, err := r.hearMessage(); err != nil {
		return nil, err
	}
	f, err := r.open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if err = r.tell(message{}); err == nil {
		_, err = r.hearMessage()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func judgeRemoved(err error, got []byte, how string) Finding {
	if err != nil || string(got) != "old" {
		return Finding{Level: levelNote, Found: "a file that is " + how + " on one host is lost to programs on the other that have it open", Then: "clients see ESTALE for it after a change of hosts"}
	}
	return Finding{Level: levelOK, Found: "an open file lasts when the other host has " + how + " it"}
}

func unlinkOne(r *run) error {
	f, err := r.create("unlinked", "old")
	if err != nil {
		return err
	}
	f.Close()
	if err := r.exchange(); err != nil {
		return err
	}
	if err := os.Remove(r.path("unlinked")); err != nil {
		return err
	}
	return r.exchange()
}

func unlinkTwo(r *run) (Finding, error) {
	f, err := r.openAndGoOn("unlinked")
	if err != nil {
		return Finding{}, err
	}
	defer f.Close()
	b := make([]byte, 3)
	_, readErr := f.ReadAt(b, 0)
	if err := r.tell(message{}); err != nil {
		return Finding{}, err
	}
	return judgeRemoved(readErr, b, "removed"), nil
}

func nothingOne(*run) error { return nil }

func directTwo(r *run) (Finding, error) {
	f, err := os.OpenFile(r.path("data"), os.O_RDONLY|unix.O_DIRECT|unix.O_NOFOLLOW, 0)
	if err != nil {
		return Finding{Level: levelNote, Found: "not supported: " + err.Error(), Then: "a standby reads the heartbeat through caches"}, nil
	}
	f.Close()
	return Finding{Level: levelOK, Found: "supported"}, nil
}

func clocksTwo(r *run) (Finding, error) {
	r.silence()
	d := time.Since(r.peer.Time).Abs()
	if d > 5*time.Second {
		return Finding{Level: levelNote, Found: fmt.Sprintf("differ by about %.0f s", d.Seconds()), Then: "synchronize them: times of files would jump at a change of hosts"}, nil
	}
	return Finding{Level: levelOK, Found: "differ by less than 5 s"}, nil
}
