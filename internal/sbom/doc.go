// Sbom prints a software bill of materials of Go programs, in the form of SPDX
// 2.3, from the build information that the programs contain.
package main
