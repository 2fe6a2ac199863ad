// Package doctor examines everything that a configuration needs: sources, state, destinations, and the process.
package doctor
