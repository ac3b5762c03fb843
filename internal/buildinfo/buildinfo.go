// Package buildinfo reports the version of the running program.
package buildinfo

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Line returns the output for --version: the program's name and version, Go's
// version and the platform. If linked, the version that the linker set, is "", the
// line also has the commit from Go's build information.
func Line(program, linked string) string {
	info, _ := debug.ReadBuildInfo()
	return formatLine(program, linked, info)
}

// Version returns linked, the version that the linker set, or, if that is "", the
// version in Go's build information.
func Version(linked string) string {
	info, _ := debug.ReadBuildInfo()
	return chooseVersion(linked, info)
}

func chooseVersion(linked string, info *debug.BuildInfo) string {
	switch {
	case linked != "":
		return linked
	case info != nil:
		return info.Main.Version
	default:
		return "unknown"
	}
}

func formatLine(program, linked string, info *debug.BuildInfo) string {
	s := fmt.Sprintf("%s %s %s %s/%s", program, chooseVersion(linked, info), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	if linked != "" || info == nil {
		return s
	}
	return s + commitSuffix(info)
}

// commitSuffix returns " commit ID", with "-dirty" if files were changed, or "" for
// a build outside a repository.
func commitSuffix(info *debug.BuildInfo) string {
	settings := make(map[string]string)
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	revision := settings["vcs.revision"]
	if revision == "" {
		return ""
	}
	if settings["vcs.modified"] == "true" {
		revision += "-dirty"
	}
	return " commit " + revision
}
