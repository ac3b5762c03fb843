package probe

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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
	Err               string `json:",omitempty"` // nothing is shown
	WriteErr, SyncErr string
	Content           string // that host 1 reads
}

// lateMargin is the time since the last sign of life of host 1 within which its late
// write must wait, and before which host 2 does not try the lock. So the write was
// there before the lock changed hands, whatever the clocks say.
func lateMargin(silence time.Duration) time.Duration { return min(silence/4, 10*time.Second) }

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
	if err := r.beat(); err != nil { // from which lateMargin counts
		return err
	}
	r.cutOff.Store(true)
	if err := r.cut(g); err != nil {
		return errors.Join(err, g.close(), r.tell(message{Err: err.Error()}))
	}
	result, err := r.queueLate(f)
	if err == nil {
		fmt.Fprintf(r.o.Err, "this host is cut off from the file system for %v\n", r.o.Silence)
		err = r.awaitSilence(result)
	}
	if g.manual {
		fmt.Fprintln(r.o.Err, "restore the connection of this host to the file system now")
	}
	if err := errors.Join(err, g.close()); err != nil {
		return errors.Join(err, r.tell(message{Err: err.Error()}))
	}
	return r.judgeOne(result, word)
}

// cut cuts this host off, or waits until the administrator has done so.
func (r *run) cut(g *guard) error {
	if !g.manual {
		return g.cut()
	}
	fmt.Fprintln(r.o.Err, "cut this host off from the servers of the file system now, without unmounting it (a firewall rule, the network cable), and restore the connection when you are told to")
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); {
		if r.ownSilence() > lateMargin(r.o.Silence)/2 {
			return nil
		}
		if err := sleep(r.ctx, pollPeriod); err != nil {
			return err
		}
	}
	return errors.New("this host is still connected to the file system")
}

// queueLate starts the late write, and waits until the kernel has it.
func (r *run) queueLate(f *os.File) (<-chan lateResult, error) {
	result, thread := make(chan lateResult, 1), make(chan int, 1)
	go func() {
		runtime.LockOSThread()
		thread <- unix.Gettid()
		result <- writeLate(f)
	}()
	call := fmt.Sprintf("/proc/self/task/%d/syscall", <-thread)
	for r.ownSilence() < lateMargin(r.o.Silence) && len(result) == 0 {
		if b, err := os.ReadFile(call); err != nil {
			return nil, err
		} else if isWaiting(string(b)) && len(result) == 0 {
			return result, nil
		}
		if err := sleep(r.ctx, pollPeriod); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("nothing is shown: no write waits in this host, which is not cut off, or was not quickly enough (use a longer --silence)")
}

// isWaiting reports whether a thread waits in a write or fsync, from its file syscall
// in /proc.
func isWaiting(call string) bool {
	number, _, _ := strings.Cut(call, " ")
	return number == strconv.Itoa(unix.SYS_PWRITE64) || number == strconv.Itoa(unix.SYS_FSYNC)
}

// awaitSilence waits for the end of the silence, until which the late write must wait.
func (r *run) awaitSilence(result <-chan lateResult) error {
	select {
	case res := <-result:
		return fmt.Errorf("nothing is shown: the late write has ended before this host was restored%s", strings.TrimSuffix(": "+res.firstError(), ": "))
	case <-time.After(r.o.Silence):
		return nil
	case <-r.ctx.Done():
		return context.Cause(r.ctx)
	}
}

// writeLate makes the late write and its fsync, one of which waits while the host is
// cut off.
func writeLate(f *os.File) (res lateResult) {
	_, writeErr := f.WriteAt([]byte(contentLate), 0)
	syncErr := unix.Fsync(int(f.Fd()))
	res.WriteErr, res.SyncErr = describe(writeErr), describe(syncErr)
	if first := cmp.Or(writeErr, syncErr); isUnrelated(first) {
		res.Err = "nothing is shown: the late write failed for another reason than a fence: " + first.Error()
	}
	return res
}

// isUnrelated reports whether an error of the late write does not come from a fence: no
// space, or the end of the mount's process (ECONNABORTED).
func isUnrelated(err error) bool {
	return slices.ContainsFunc([]error{unix.ENOSPC, unix.EDQUOT, unix.ENOMEM, unix.EINTR, unix.ECONNABORTED}, func(e error) bool {
		return errors.Is(err, e)
	})
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
	err := r.tell(res)
	if res.Err != "" {
		return errors.Join(errors.New(res.Err), err)
	}
	if err != nil {
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
	margin := lateMargin(silence)
	took, err := r.waitFor(2*silence+5*time.Minute, func() bool {
		r.back, _ = r.tryHear(&res)
		return r.back || r.silence() > margin && flock.lock(f) == nil
	})
	if res.Err != "" {
		err = fmt.Errorf("on host %s: %s", r.peer.Host, res.Err)
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
	if r.silence() > silence-margin {
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
	go readLines(r.ctx, r.o.In, codes)
	for deadline := time.Now().Add(silence + 10*time.Minute); time.Now().Before(deadline); {
		if r.back, err = r.tryHear(res); r.back && res.Err != "" {
			err = fmt.Errorf("on host %s: %s", r.peer.Host, res.Err)
		}
		if r.back || err != nil {
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

func judgeLate(back, confirmed bool, res *lateResult, content string) Finding {
	replaced := content == contentLate || res.Content == contentLate
	switch {
	case !replaced && content != contentNew:
		return Finding{Level: levelFail, Found: fmt.Sprintf("nothing is shown about late writes: this host reads %q, and has written %q", content, contentNew), Then: "run the test again"}
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
