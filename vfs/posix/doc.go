// Package posix serves a directory of the host as a vfs.FS.
package posix
