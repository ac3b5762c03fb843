package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/nfsrdma/nfsrdma/internal/buildinfo"
	"github.com/nfsrdma/nfsrdma/internal/doctor"
)

// bundleFiles are the files of doctor --bundle, besides the findings.
func bundleFiles(exportsFile string) []doctor.BundleFile {
	list := []doctor.BundleFile{
		doctor.HostFile(buildinfo.Line("nfsrdmad", version)),
		{Name: "status.json", About: "status of the running daemon", Kind: doctor.JSONText, Read: readStatus},
		{Name: "command.txt", About: "command line of the running daemon", Read: readDaemonCommand},
		doctor.SettingsFile(exportsFile, "exports", doctor.SettingsText),
	}
	dropIns, _ := filepath.Glob(exportsFile + ".d/*.exports")
	for _, name := range dropIns {
		list = append(list, doctor.SettingsFile(name, "exports", doctor.SettingsText))
	}
	for _, f := range []doctor.BundleFile{
		doctor.SettingsFile("/etc/default/nfsrdmad", "flags of the service", doctor.EnvText),
		doctor.SettingsFile("/etc/sysconfig/nfsrdmad", "flags of the service", doctor.EnvText),
		doctor.SettingsFile("/etc/nfsrdma/nfsrdmad.conf", "flags of the service", doctor.SettingsText),
	} {
		if _, err := os.Lstat("/" + f.Name); err == nil {
			list = append(list, f)
		}
	}
	return append(list,
		doctor.CommandFile("units.txt", "units of the service, with their drop-ins", doctor.SettingsText,
			"systemctl", "--no-pager", "cat", "nfsrdmad.service", "nfsrdmad.socket", "nfsrdmad-tcp.socket"),
		doctor.CommandFile("unit-state.txt", "state of the service", doctor.PlainText,
			"systemctl", "--no-pager", "show", "nfsrdmad.service", "-p", "ActiveState,SubState,Result,NRestarts,ExecMainStatus,ExecMainStartTimestamp,UnitFileState,NeedDaemonReload"),
		doctor.JournalFile("the service's latest 5000 lines in the journal", "-u", "nfsrdmad.service"))
}

// readStatus returns the status of the running daemon, one member a line.
func readStatus(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	body, err := requestDaemon(ctx, defaultControl(), http.MethodGet, "status")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(io.LimitReader(body, maxStatus+1))
	if err == nil && len(text) > maxStatus {
		err = fmt.Errorf("the status is longer than %d bytes", maxStatus)
	}
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, text, "", " "); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// maxStatus is the maximum size of a status in a bundle: complete documents are JSON.
const maxStatus = 1 << 20

// readDaemonCommand returns the command line of the running daemon.
func readDaemonCommand(context.Context) ([]byte, error) {
	pid, running := daemonProcess()
	if !running || pid == 0 {
		return nil, errors.New("no daemon of this user runs in this container")
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return append(bytes.ReplaceAll(bytes.TrimRight(text, "\x00"), []byte{0}, []byte{' '}), '\n'), err
}
