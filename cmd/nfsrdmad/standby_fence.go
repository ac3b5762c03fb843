package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nfsrdma/nfsrdma/internal/cli"
	"github.com/nfsrdma/nfsrdma/internal/mountinfo"
	"github.com/nfsrdma/nfsrdma/internal/standby"
	"github.com/nfsrdma/nfsrdma/nfsserver/exports"
)

// A fencingRecord is the file fencing.json in a state directory: what nfsrdmad probe --late has found
// out about its file system.
type fencingRecord struct {
	Version    int       `json:"version"`
	FileSystem string    `json:"filesystem"` // its type
	Source     string    `json:"source"`     // of the mount
	Fences     bool      `json:"fences"`     // it rejects late writes of a host whose lock it has given up
	Hosts      []string  `json:"hosts"`
	Tested     time.Time `json:"tested"`
}

const (
	fencingFile    = "fencing.json"
	fencingVersion = 1
)

// unfitFileSystems are the types of file systems that a state directory of --standby must not be on:
// their locks and caches depend on another server, which may fail on its own.
var unfitFileSystems = []string{"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p"}

// prepareStandby checks what can be checked before this host waits.
func (o *serveOptions) prepareStandby(log *slog.Logger) error {
	if o.state == "" {
		return errors.New("no home directory for the state directory: name one with --state")
	}
	at, err := o.checkStateDir()
	if err != nil {
		return err
	}
	if slices.Contains(unfitFileSystems, at.Kind) {
		return fmt.Errorf("the state directory %s is on a mount of %s, on which --standby cannot rely: use a file system that the hosts share directly, such as CephFS or a DRBD volume", o.state, at.Kind)
	}
	list, err := o.readExportsFile(log)
	if list == nil && err != nil {
		return fmt.Errorf("not waiting to serve, because the exports have errors:\n%w", err)
	}
	if err := errors.Join(o.checkStandbyExports(list), o.checkStatePlace(at, list), o.checkFenceCommand()); err != nil {
		return err
	}
	how, err := o.findFence(at)
	if err != nil {
		return err
	}
	o.daemon.standby.fence.Store(&how)
	log.Info("this host waits until it may serve", "fence", how)
	return nil
}

// localFileSystems are the types of file systems that one host mounts at a time.
var localFileSystems = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "tmpfs", "overlay"}

// checkStatePlace checks that the other hosts can see the state directory, and clients cannot.
func (o *serveOptions) checkStatePlace(at mountinfo.Mount, list []exportSpec) error {
	var errs []error
	for i := range list {
		e := &list[i]
		data, err := mountOf(e.dir)
		if e.broken || err != nil {
			continue // it is reported, and not served
		}
		if slices.Contains(localFileSystems, at.Kind) && data.Source != at.Source {
			errs = append(errs, fmt.Errorf("the state directory %s is on %s, in which other hosts do not see whether this one serves: name a directory beside %s on %s from %s with --state", o.state, at.Kind, e.dir, data.Kind, data.Source))
		}
		if err := (&stateDir{dir: o.state}).checkOutside(e.dir); err != nil {
			errs = append(errs, fmt.Errorf("%s%w", e.position, err))
		}
	}
	return errors.Join(errs...)
}

// checkFenceCommand checks that the command of --fence can be executed, because it is first used when
// a host has failed.
func (o *serveOptions) checkFenceCommand() error {
	if o.fence == "" {
		return nil
	}
	command := strings.Fields(o.fence)[0]
	if _, err := exec.LookPath(command); err != nil {
		if e, ok := errors.AsType[*exec.Error](err); ok {
			err = e.Err
		}
		return fmt.Errorf("the command %s of --fence cannot be executed (%w): correct its path or its permissions", command, cli.Cause(err))
	}
	return nil
}

// checkStateDir returns the mount of the state directory, which must exist and be written by nobody
// else: who can write the beat decides which host is fenced.
func (o *serveOptions) checkStateDir() (at mountinfo.Mount, err error) {
	info, err := os.Stat(o.state)
	if err != nil || !info.IsDir() {
		return at, fmt.Errorf("the state directory %s does not exist: mount its file system, or create it there once (--standby does not, because the file system may not be mounted)", o.state)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return at, fmt.Errorf("the state directory %s can be written by other users, who could take over or have a host fenced: chmod 0700 %s", o.state, o.state)
	}
	return mountOf(o.state)
}

// findFence returns how a silent host is kept from writing, as text.
func (o *serveOptions) findFence(at mountinfo.Mount) (string, error) {
	const remedy = "test the file system with nfsrdmad probe --late, name a command with --fence, or serve read-only data with --standby=read-only"
	switch {
	case o.standby.Word == standbyReadOnly:
		return "none (read-only standby, without a fence)", nil
	case o.fence != "":
		return "command " + o.fence, nil
	}
	r, err := readFencing(filepath.Join(o.state, fencingFile))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("nothing shows that %s rejects late writes of a host whose lock it has given up, and files could be overwritten: %s", at.Kind, remedy)
	case err != nil:
		return "", err
	case r.FileSystem != at.Kind || r.Source != at.Source:
		return "", fmt.Errorf("%s is about %s from %s, but the state directory is on %s from %s: %s", filepath.Join(o.state, fencingFile), r.FileSystem, r.Source, at.Kind, at.Source, remedy)
	case !r.Fences:
		return "", fmt.Errorf("%s accepts late writes of a host whose lock it has given up (tested %s), and files could be overwritten: name a command with --fence, or serve read-only data with --standby=read-only", at.Kind, r.Tested.Format(time.DateOnly))
	}
	return fmt.Sprintf("%s rejects late writes (tested %s)", at.Kind, r.Tested.Format(time.DateOnly)), nil
}

func readFencing(name string) (r fencingRecord, err error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil || r.Version != fencingVersion {
		return r, fmt.Errorf("%s is not a record of this version: run nfsrdmad probe --late again", name)
	}
	return r, nil
}

// mountOf returns the mount that a path is on.
func mountOf(path string) (mountinfo.Mount, error) {
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_MNT_ID, &st); err != nil {
		return mountinfo.Mount{}, fmt.Errorf("%s: %w", path, err)
	}
	list, err := mountinfo.All()
	if err != nil {
		return mountinfo.Mount{}, err
	}
	for _, m := range list {
		if m.ID == st.Mnt_id {
			return m, nil
		}
	}
	return mountinfo.Mount{}, fmt.Errorf("%s is on a mount that /proc/self/mountinfo does not show", path)
}

// checkStandbyExports checks that each export of a standby is the same on all hosts.
func (o *serveOptions) checkStandbyExports(list []exportSpec) error {
	if !o.isStandby() {
		return nil
	}
	var errs []error
	for i := range list {
		e := &list[i]
		if e.broken {
			continue // it is reported, and not served
		}
		switch {
		case !e.fsid.Set():
			errs = append(errs, fmt.Errorf("%s%s needs an fsid= that is the same on all hosts of --standby: add fsid=%s to its options", e.position, e.name, newUUID()))
		case e.fsid.Attr() == 0:
			errs = append(errs, fmt.Errorf("%s%s has fsid=%s, for which clients see the number of a device of this host: write another, such as fsid=1", e.position, e.name, e.fsid))
		case e.anyClient(func(o *exports.Options) bool { return o.CrossMnt }):
			errs = append(errs, fmt.Errorf("%s%s has crossmnt, but the mounts below it are each host's own: export each on its own line with an fsid=, or remove crossmnt", e.position, e.name))
		case o.needsFencingRecord():
			if err := o.checkSameMount(e); err != nil {
				errs = append(errs, err)
			}
		case o.standby.Word == standbyReadOnly && e.anyClient(func(o *exports.Options) bool { return !o.ReadOnly }):
			errs = append(errs, fmt.Errorf("%s%s is exported for writing, and --standby=read-only has no fence: write ro, or use --standby with a fence", e.position, e.name))
		}
	}
	return errors.Join(errs...)
}

// needsFencingRecord reports whether the file system itself must reject late writes.
func (o *standbyOptions) needsFencingRecord() bool {
	return o.standby.Word == standbyOn && o.fence == ""
}

// checkSameMount checks that the record about the state directory's file system holds for an export.
func (o *serveOptions) checkSameMount(e *exportSpec) error {
	state, err := mountOf(o.state)
	if err != nil {
		return err
	}
	at, err := mountOf(e.dir)
	if err != nil {
		return fmt.Errorf("%s%w", e.position, err)
	}
	if at.Kind != state.Kind || at.Source != state.Source || at.Device != state.Device {
		return fmt.Errorf("%s%s is on %s from %s (device %s), about which the test of the state directory's file system says nothing: name a command that fences both with --fence", e.position, e.dir, at.Kind, at.Source, at.Device)
	}
	return nil
}

// newUUID returns a random UUID (RFC 9562, Section 5.4).
func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// runFence runs the command of --fence with the silent host's name and address. It has succeeded when
// its exit status is 0.
func (o *serveOptions) runFence(ctx context.Context, silent standby.Beat) error {
	ctx, cancel := context.WithTimeout(ctx, o.fenceTimeout)
	defer cancel()
	words := append(strings.Fields(o.fence), silent.Host, silent.Address)
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	cmd.SysProcAttr = &unix.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	out := &tailBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("the fence command has not ended within %v", o.fenceTimeout)
	case err != nil:
		return fmt.Errorf("the fence command failed: %w%s", cli.Cause(err), out.lastLine())
	}
	return nil
}

// A tailBuffer keeps the end of a command's output.
type tailBuffer struct{ b []byte }

const tailLen = 512 // bytes

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - tailLen; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// lastLine returns the last line after a colon, or nothing.
func (t *tailBuffer) lastLine() string {
	lines := bytes.Split(bytes.TrimSpace(t.b), []byte("\n"))
	if last := bytes.TrimSpace(lines[len(lines)-1]); len(last) > 0 {
		return ": " + string(last)
	}
	return ""
}
