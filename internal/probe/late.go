package probe

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/stablefile"
)

// The contents of the late test's file, in turn.
const (
	contentOld  = "OLD "
	contentLate = "LATE"
	contentNew  = "NEW "
)

// A Record is the content of fencing.json: what the late test has shown.
type Record struct {
	Version    int       `json:"version"` // 1
	FileSystem string    `json:"filesystem"`
	Source     string    `json:"source"`
	Fences     bool      `json:"fences"`
	Hosts      [2]string `json:"hosts"`
	Tested     time.Time `json:"tested"`
}

// lateResult is what host 1 tells after it was restored.
type lateResult struct {
	WriteErr, SyncErr string
	Content           string // that host 1 reads
}

// testLate is the test whether the file system executes a write of a host that has
// lost its lock:
//
//	host 1                            host 2
//	locks, writes OLD and syncs
//	is cut off; writes LATE (waits)   waits for the lock
//	                                  locks, writes NEW and syncs
//	is restored: LATE is executed, or fails
//	both read
func (r *run) testLate(g *guard) error {
	if r.first {
		return r.lateOne(g)
	}
	return r.lateTwo()
}

func (r *run) lateOne(g *guard) error {
	f, err := r.create("late", contentOld)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := flock.lock(f); err != nil {
		return fmt.Errorf("flock: %w", err)
	}
	code, err := rand.Int(rand.Reader, big.NewInt(1e6))
	if err != nil {
		return err
	}
	word := fmt.Sprintf("%06d", code)
	if err := r.tell(message{Word: "locked", Bytes: hashCode(word), Number: int64(r.o.Silence)}); err != nil {
		return err
	}
	if _, err := r.hearMessage(); err != nil {
		return err
	}
	if err := r.cut(g); err != nil {
		return errors.Join(err, r.tell(message{Err: err.Error()}))
	}
	fmt.Fprintf(r.o.Err, "this host is cut off from the file system for %v\n", r.o.Silence)
	result := make(chan lateResult, 1)
	go func() { result <- writeLate(f) }()
	if err := sleep(r.ctx, r.o.Silence); err != nil {
		return err
	}
	if g.manual {
		fmt.Fprintln(r.o.Err, "restore the connection of this host to the file system now")
	}
	g.close()
	return r.judgeOne(result, word)
}

// cut cuts this host off, or waits until the administrator has done so.
func (r *run) cut(g *guard) error {
	if !g.manual {
		return g.cut()
	}
	fmt.Fprintln(r.o.Err, "cut this host off from the servers of the file system now, without unmounting it (a firewall rule, the network cable), and restore the connection when you are told to")
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		if s := r.ownSilence(); s < 0 || s > 3*time.Second {
			return nil
		}
		if err := sleep(r.ctx, 4*time.Second); err != nil {
			return err
		}
	}
	return errors.New("this host is still connected to the file system")
}

// writeLate makes the late write and its fsync, both of which wait while the host is
// cut off.
func writeLate(f *os.File) (res lateResult) {
	if _, err := f.WriteAt([]byte(contentLate), 0); err != nil {
		res.WriteErr = err.Error()
	}
	if err := unix.Fsync(int(f.Fd())); err != nil {
		res.SyncErr = err.Error()
	}
	return res
}

// judgeOne tells host 2 how the late write has ended. A host that was fenced cannot
// tell anything: then its administrator confirms it on host 2.
func (r *run) judgeOne(result <-chan lateResult, code string) error {
	var res lateResult
	select {
	case res = <-result:
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	case <-time.After(10 * time.Minute):
		return errors.New("the late write has not ended 10 minutes after this host was restored")
	}
	res.Content = readUncached(r.path("late"))
	if err := r.tell(res); err != nil {
		if res.WriteErr == "" && res.SyncErr == "" {
			return fmt.Errorf("the late write has succeeded, but this host cannot use the file system: %w", err)
		}
		r.report.add(Finding{
			Check: "late write", Level: levelOK, Found: "fences: the late write failed: " + res.firstError(),
			Then: "type this code on host " + r.peer.Host + ": " + code + "; mount the file system here anew",
		})
		return r.finish()
	}
	var f Finding
	if err := r.hear(r.ctx, &f, peerLimit); err != nil {
		return err
	}
	r.report.add(f)
	r.part()
	return r.finish()
}

func (l *lateResult) firstError() string {
	if l.WriteErr != "" {
		return l.WriteErr
	}
	return l.SyncErr
}

// readUncached reads a file without the kernel's cache, as far as the file system can.
func readUncached(name string) string {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_DIRECT|unix.O_NOFOLLOW, 0)
	if err != nil {
		if f, err = os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0); err != nil {
			return err.Error()
		}
	}
	defer f.Close()
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE) // aligned
	if err != nil {
		return err.Error()
	}
	defer unix.Munmap(page)
	n, err := unix.Pread(int(f.Fd()), page, 0)
	if err != nil {
		return err.Error()
	}
	return string(page[:n])
}

func hashCode(code string) []byte {
	sum := sha256.Sum256([]byte("nfsrdma fences " + code))
	return sum[:]
}

func (r *run) lateTwo() error {
	start, err := r.hearMessage()
	if err != nil {
		return err
	}
	silence := time.Duration(start.Number)
	f, err := r.open("late", os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	if flock.lock(f) == nil {
		err := errors.New("locks are not seen from the other host: run the probe without --late")
		return errors.Join(err, r.tell(message{Err: err.Error()}))
	}
	if err := r.tell(message{}); err != nil {
		return err
	}
	fmt.Fprintf(r.o.Err, "host %s is being cut off for %v; this host waits for its lock\n", r.peer.Host, silence)
	finding, err := r.takeOver(f, silence, start.Bytes)
	if err != nil {
		return err
	}
	finding.Check = "late write"
	r.report.add(finding)
	err = errors.Join(r.tell(finding), r.record(finding))
	if err != nil {
		return err
	}
	if r.back {
		r.part()
	}
	return r.finish()
}

// takeOver waits for the lock, writes, and judges what host 1 tells.
func (r *run) takeOver(f *os.File, silence time.Duration, hash []byte) (Finding, error) {
	var res lateResult
	var m struct {
		lateResult
		Err string
	}
	took, err := r.waitFor(2*silence+5*time.Minute, func() bool {
		r.back, _ = r.tryHear(&m)
		return r.back || flock.lock(f) == nil
	})
	if m.Err != "" {
		err = fmt.Errorf("on host %s: %s", r.peer.Host, m.Err)
	}
	if err != nil {
		return Finding{}, err
	}
	if r.back || took < 0 {
		return Finding{Level: levelFail, Found: fmt.Sprintf("the file system has kept the lock of the silent host for %v", silence), Then: "nothing is shown about late writes: use a longer --silence, or shorten the file system's session timeout"}, nil
	}
	fmt.Fprintf(r.o.Err, "the lock of host %s was free after %.0f s\n", r.peer.Host, took.Seconds())
	if _, err := f.WriteAt([]byte(contentNew), 0); err != nil {
		return Finding{}, err
	}
	if err := f.Sync(); err != nil {
		return Finding{}, err
	}
	if r.silence() > silence-min(silence/4, 10*time.Second) {
		return Finding{Level: levelFail, Found: fmt.Sprintf("the lock was free only after %.0f s", took.Seconds()), Then: "nothing is shown about late writes: use a longer --silence"}, nil
	}
	confirmed, err := r.awaitResult(&res, silence, hash)
	if err != nil {
		return Finding{}, err
	}
	return judgeLate(r.back, confirmed, &res, readUncached(r.path("late"))), nil
}

// awaitResult waits until host 1 tells its result, or its administrator confirms that
// it was fenced.
func (r *run) awaitResult(res *lateResult, silence time.Duration, hash []byte) (confirmed bool, err error) {
	fmt.Fprintf(r.o.Err, "NEW is written; if host %s prints a code, type it here\n", r.peer.Host)
	codes := make(chan string)
	go readLines(r, codes)
	for deadline := time.Now().Add(silence + 10*time.Minute); time.Now().Before(deadline); {
		if r.back, err = r.tryHear(res); r.back || err != nil {
			return false, err
		}
		select {
		case code, open := <-codes:
			if string(hashCode(strings.TrimSpace(code))) == string(hash) {
				return true, nil
			}
			if !open {
				codes = nil
				deadline = time.Now().Add(silence + time.Minute)
				continue
			}
			fmt.Fprintln(r.o.Err, "this is not the code")
		case <-time.After(pollPeriod):
		case <-r.ctx.Done():
			return false, context.Cause(r.ctx)
		}
	}
	return false, nil
}

func readLines(r *run, lines chan<- string) {
	defer close(lines)
	for s := bufio.NewScanner(r.o.In); s.Scan(); {
		select {
		case lines <- s.Text():
		case <-r.ctx.Done():
			return
		}
	}
}

func judgeLate(back, confirmed bool, res *lateResult, content string) Finding {
	replaced := content == contentLate || res.Content == contentLate
	switch {
	case confirmed && !replaced:
		return Finding{Level: levelOK, Found: "fences: the late write failed", Then: "recorded in fencing.json"}
	case !back && !replaced:
		return Finding{Level: levelFail, Found: "the other host has not come back, and nobody has typed its code", Then: "run the test again"}
	case back && !replaced && res.firstError() != "":
		return Finding{Level: levelOK, Found: "fences: the late write failed: " + res.firstError(), Then: "recorded in fencing.json"}
	}
	found := "does NOT fence: a late write of a host that had lost its lock replaced synced data"
	if !replaced {
		found = "does NOT fence: a late write of a host that had lost its lock succeeded, and is lost"
	}
	if back && res.firstError() == "" {
		found += ", and its fsync returned success"
	}
	return Finding{Level: levelFail, Found: found, Then: "name a command that fences a host (--fence CMD), or serve read-only (--standby=read-only)"}
}

// record writes the record that a standby reads, or removes it.
func (r *run) record(f Finding) error {
	name := filepath.Join(r.o.Dir, "fencing.json")
	if f.Level != levelOK {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	b, err := json.MarshalIndent(Record{
		Version: 1, FileSystem: r.mount.Kind, Source: r.mount.Source, Fences: true,
		Hosts: r.report.Hosts, Tested: time.Now().UTC().Truncate(time.Second),
	}, "", "  ")
	if err != nil {
		return err
	}
	return stablefile.Replace(name, append(b, '\n'), (*os.File).Sync)
}
