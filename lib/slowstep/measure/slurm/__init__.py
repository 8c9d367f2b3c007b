"""The measurer that spreads an investigation over the nodes of a Slurm cluster, by jobs that submitit submits.

Each job has one node and runs a `LocalMeasurer` there. Requests and answers are files in the investigation's folder,
which the nodes must share with the machine that slowstep is started on. Both arms of a comparison are measured by one
job, so no effect holds a difference between nodes.
"""
