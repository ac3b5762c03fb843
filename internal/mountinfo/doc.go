// Package mountinfo reads the kernel's list of mounts, /proc/self/mountinfo (proc(5)).
// The package must not know what the mounts are for.
package mountinfo
