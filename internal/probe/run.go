package probe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
)

// Options are what a probe needs.
type Options struct {
	Dir  string
	Host string        // this host's name in the report
	Wait time.Duration // for the other probe
	JSON bool

	Late    bool
	Silence time.Duration // how long the late test cuts host 1 off
	Cut     string        // commands that cut this host off and restore it, or ""
	Restore string
	Guard   []string // the command that executes RunGuard
	Worker  []string // the command that executes RunWorker

	In       io.Reader `json:"-"` // for the code of the late test
	Out, Err io.Writer `json:"-"`
}

const (
	hangLimit  = time.Minute     // without a beat of this host
	closeLimit = 3 * time.Second // for removing the files of the probe
)

// ErrUnusable is returned when the report, which has been printed, has a failure.
var ErrUnusable = errors.New("not usable for a standby")

// A run is a probe that has met the other one.
type run struct {
	*meeting
	o      *Options
	ctx    context.Context // the command's
	work   string          // the directory of the checks
	mount  mountinfo.Mount
	report Report
	back   bool        // host 1 has told how its late write has ended
	cutOff atomic.Bool // this host is, or was
}

// execute runs a probe to its end. It returns although the file system hangs; its
// goroutines then go on.
func execute(ctx context.Context, o *Options) (err error) {
	var mount mountinfo.Mount
	if err = within(ctx, o.Dir, func() (err error) {
		mount, err = examineDirectory(o.Dir)
		return err
	}); err != nil {
		return err
	}
	r := &run{o: o, ctx: ctx, mount: mount, report: Report{Directory: o.Dir, FileSystem: mount.Kind}}
	g := &guard{manual: true}
	if o.Late {
		// The guard is started before any file of the directory is open: Linux
		// flushes open files when a program starts, which would hang during the cut.
		if g, err = startGuard(o, mount); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, g.close()) }()
	if err = within(ctx, o.Dir, func() (err error) {
		r.meeting, err = openMeeting(o.Dir, o.Host, o.Late)
		return err
	}); err != nil {
		return fmt.Errorf("%s: %w", o.Dir, err)
	}
	err = r.watch(g)
	_ = g.close() // so that file operations end
	r.closeSoon(err != nil)
	return err
}

// within calls a function that may hang.
func within(ctx context.Context, dir string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(hangLimit):
		return hangError(dir)
	}
}

func hangError(dir string) error {
	return fmt.Errorf("%s: the file system does not respond for %v", dir, hangLimit)
}

// watch makes the probe, until the file system hangs.
func (r *run) watch(g *guard) error {
	done := make(chan error, 1)
	go func() { done <- r.probe(g) }()
	ticker := time.NewTicker(beatPeriod)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			if err != nil && !errors.Is(err, ErrUnusable) {
				_ = sleep(r.ctx, 4*beatPeriod) // the other must see why
			}
			return err
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		case <-ticker.C:
			if !r.cutOff.Load() && r.ownSilence() > hangLimit {
				return hangError(r.o.Dir)
			}
		}
	}
}

// closeSoon removes the files of the probe, or leaves them if the file system hangs.
func (r *run) closeSoon(failed bool) {
	closed := make(chan struct{})
	go func() {
		r.close(r.o.Late && !failed && !r.first)
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(closeLimit):
		fmt.Fprintf(r.o.Err, "remove %s later: the file system does not respond\n", r.own)
	}
}

// probe meets the other probe, runs the checks and prints the report.
func (r *run) probe(g *guard) error {
	if err := r.await(); err != nil {
		return err
	}
	r.report.Hosts = [2]string{r.hello.Host, r.peer.Host}
	r.work = r.own
	if !r.first {
		r.report.Hosts = [2]string{r.peer.Host, r.hello.Host}
		r.work = r.other
	}
	fmt.Fprintf(r.o.Err, "host %s has come\n", r.peer.Host)
	if r.o.Late {
		return r.testLate(g)
	}
	for _, c := range checks {
		f, err := r.check(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		r.report.add(f)
	}
	r.part()
	return r.finish()
}

// part makes sure that the other probe has received the last message.
func (r *run) part() {
	if r.first {
		_ = r.tell(message{})
		return
	}
	_, _ = r.waitFor(peerLimit, func() bool {
		if ok, _ := r.tryHear(&message{}); ok {
			return true
		}
		return r.hasPeerEnded()
	})
}

// finish prints the report.
func (r *run) finish() error {
	r.report.complete()
	if err := r.report.print(r.o.Out, r.o.JSON); err != nil {
		return err
	}
	if !r.report.Usable {
		return ErrUnusable
	}
	return nil
}

// await waits for the other probe, and says what to do there.
func (r *run) await() error {
	late := ""
	if r.o.Late {
		late = "--late "
	}
	fmt.Fprintf(r.o.Err, "now run on the other host, within %v, for the same directory: nfsrdmad probe %s%s\n", r.o.Wait, late, r.o.Dir)
	ctx, cancel := context.WithTimeoutCause(r.ctx, r.o.Wait, fmt.Errorf(
		"no other probe has come to %s within %v: start it on the other host, and check that both hosts mount the same file system there (this host has %s from %s)",
		r.o.Dir, r.o.Wait, r.mount.Kind, r.mount.Source))
	defer cancel()
	return r.meet(ctx)
}

// Types of file systems in statfs(2).
const (
	nfsMagic  = 0x6969
	smbMagic  = 0x517b
	cifsMagic = 0xff534d42
	smb2Magic = 0xfe534d42
	v9fsMagic = 0x01021997
)

// examineDirectory checks that the directory can be used, and returns its mount.
func examineDirectory(dir string) (m mountinfo.Mount, err error) {
	var st unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, dir, 0, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
		err = unix.ENOTDIR
	}
	if err != nil {
		return m, &os.PathError{Op: "probe", Path: dir, Err: err}
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return m, fmt.Errorf("%s: other users can write there, and could disturb the probe: use a directory that only this user can write (chmod 755)", dir)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		return m, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	switch uint32(fs.Type) {
	case nfsMagic, smbMagic, cifsMagic, smb2Magic, v9fsMagic:
		return m, fmt.Errorf("%s is on a network mount (NFS, SMB or 9p), which nfsrdmad does not serve: run the standby on the hosts of that server's file system", dir)
	}
	list, err := mountinfo.All()
	for _, m := range list {
		if m.ID == st.Mnt_id {
			return m, err
		}
	}
	return m, fmt.Errorf("%s: its mount is not in /proc/self/mountinfo: %w", dir, errors.Join(err, unix.ENOENT))
}

// A message is what the checks exchange.
type message struct {
	Err     string `json:",omitempty"`
	Word    string `json:",omitempty"`
	Names   []string
	Number  int64
	Numbers []uint64
	Bytes   []byte
}

// path returns the path of a file of the checks.
func (r *run) path(name string) string { return filepath.Join(r.work, name) }
